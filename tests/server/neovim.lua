-- Run by Neovim without a screen: opens the fixture, waits for what the server says, applies an action.
-- Writes what it saw to the file named in $SEEN, one JSON object.
local result = {}

local function finish()
  local file = io.open(vim.env.SEEN, "w")
  file:write(vim.json.encode(result))
  file:close()
  vim.cmd("qall!")
end

local function wait(condition, what)
  if not vim.wait(60000, condition, 50) then
    result.failed = what
    finish()
  end
end

dofile(vim.env.SETUP)
vim.cmd("edit " .. vim.env.FIXTURE)
vim.bo.filetype = "python"

wait(function() return #vim.diagnostic.get(0) > 0 end, "diagnostics")
result.diagnostics = vim.tbl_map(function(each)
  return { line = each.lnum, column = each.col, code = each.code or each.user_data.lsp.code, source = each.source }
end, vim.diagnostic.get(0))
local first = vim.diagnostic.get(0)[1]
vim.api.nvim_win_set_cursor(0, { first.lnum + 1, first.col })
local hovers = vim.lsp.buf_request_sync(0, "textDocument/hover", vim.lsp.util.make_position_params(0, "utf-16"), 60000)
for _, hover in pairs(hovers or {}) do
  result.hover = hover.result and hover.result.contents.value
end
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
wait(function() return #vim.diagnostic.get(0) == 0 end, "the fix")
result.text = table.concat(vim.api.nvim_buf_get_lines(0, 0, -1, false), "\n") .. "\n"
finish()
