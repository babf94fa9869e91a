/** What `src/interpreter.ts` uses of the module `vscode`, over a state that tests set. */

export interface Folder {
  readonly uri: { readonly fsPath: string };
}

export const state = {
  folders: [] as Folder[],
  extensions: new Map<string, { activate(): Promise<unknown> }>(),
  settings: new Map<string, unknown>(),
};

export const extensions = { getExtension: (id: string) => state.extensions.get(id) };

export const workspace = {
  get workspaceFolders(): Folder[] | undefined {
    return state.folders.length > 0 ? state.folders : undefined;
  },
  getConfiguration: (section: string) => ({ get: (name: string) => state.settings.get(`${section}.${name}`) }),
};
