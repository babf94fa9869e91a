-- Run by headless Neovim with the fixture as its buffer: starts the server, waits for what it says, applies an action.
-- Writes what it saw to the file named in $SEEN, one JSON object.
local folder, seen, server = vim.env.FOLDER, vim.env.SEEN, vim.json.decode(vim.env.SERVER)
local result = {}

local function wait(condition, what)
  if not vim.wait(60000, condition, 50) then
    result.failed = what
  end
  return not result.failed
end

local function finish()
  local file = io.open(seen, "w")
  file:write(vim.json.encode(result))
  file:close()
  vim.cmd("qall!")
end

local client = vim.lsp.start_client({ name = "placement-lint", cmd = server, root_dir = folder })
vim.lsp.buf_attach_client(0, client)

if wait(function() return #vim.diagnostic.get(0) > 0 end, "diagnostics") then
  result.diagnostics = vim.tbl_map(function(each)
    return { line = each.lnum, column = each.col, code = each.code or each.user_data.lsp.code, source = each.source }
  end, vim.diagnostic.get(0))
  local first = vim.diagnostic.get(0)[1]
  vim.api.nvim_win_set_cursor(0, { first.lnum + 1, first.col })
  local hover = vim.lsp.buf_request_sync(0, "textDocument/hover", vim.lsp.util.make_position_params(), 60000)
  result.hover = hover and hover[client] and hover[client].result and hover[client].result.contents.value
  -- The user chooses the fix from the menu.
  vim.ui.select = function(items, _, choose)
    for _, item in ipairs(items) do
      local action = item.action or item[2]
      if action.title:find("assign the moved tensor") then
        return choose(item)
      end
    end
    choose(nil)
  end
  vim.lsp.buf.code_action()
  if wait(function() return #vim.diagnostic.get(0) == 0 end, "the fix") then
    result.text = table.concat(vim.api.nvim_buf_get_lines(0, 0, -1, false), "\n") .. "\n"
  end
end
vim.lsp.stop_client(client)
finish()
