-- Opens a file in a real editor, prints its diagnostics and the title of its quick fix, applies that, saves.
local function opened(server)
  local config = { name = 'torchlint', cmd = server, root_dir = vim.fn.getcwd() }
  if vim.lsp.start then
    return vim.lsp.start(config)
  end
  local client = vim.lsp.start_client(config)
  vim.lsp.buf_attach_client(0, client)
  return client
end

local function await(what, condition)
  if not vim.wait(30000, condition, 20) then
    print('timeout: ' .. what)
    vim.cmd('cquit 1')
  end
end

vim.cmd('edit train.py')
vim.bo.filetype = 'python'
local id = opened(vim.fn.json_decode(vim.env.SERVER))
await('initialize', function() return vim.lsp.get_client_by_id(id).initialized end)
await('diagnostics', function() return #vim.diagnostic.get(0) == 1 end)
local found = vim.diagnostic.get(0)[1]
print(string.format('%s %d:%d-%d:%d %s', found.code or found.user_data.lsp.code, found.lnum, found.col, found.end_lnum,
  found.end_col, found.message))

vim.api.nvim_win_set_cursor(0, { found.lnum + 1, found.col })
local client = vim.lsp.get_client_by_id(id)
local params = vim.lsp.util.make_range_params(0, client.offset_encoding)
params.context = { diagnostics = {}, only = { 'quickfix' } }
local response = vim.lsp.buf_request_sync(0, 'textDocument/codeAction', params, 30000)[id]
print(response.result[1].title)
vim.lsp.util.apply_workspace_edit(response.result[1].edit, client.offset_encoding)
await('no diagnostics', function() return #vim.diagnostic.get(0) == 0 end)
vim.cmd('write')
vim.cmd('qall')
