// How each agent is started on one prompt, with belljar as its only tools: the
// address of the model, a directory of its own for settings, no telemetry and no
// updates. docs/clients.md says the same to people.
import { put } from "./standin.mjs";

// Each takes the model's address, a directory and belljar's command, and returns
// the agent's command with the environment that it needs.
export const agents = {
  "claude-code"(model, home, [command, ...args]) {
    put(`${home}/mcp.json`, { mcpServers: { belljar: { command, args } } });
    return {
      argv: ["claude", "--print", "Do it.", "--model", "claude-opus-4-5", "--mcp-config", `${home}/mcp.json`, "--strict-mcp-config", "--tools", "", "--allowedTools", "mcp__belljar"],
      env: { ANTHROPIC_BASE_URL: model, ANTHROPIC_API_KEY: "none", DISABLE_AUTOUPDATER: "1", CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1" },
    };
  },
  codex(model, home, [command, ...args]) {
    put(`${home}/.codex/config.toml`, `
      model = "scripted"
      model_provider = "scripted"
      check_for_update_on_startup = false
      web_search = "disabled"
      sandbox_mode = "read-only"
      [model_providers.scripted]
      name = "scripted"
      base_url = "${model}/v1"
      wire_api = "responses"
      env_key = "SCRIPTED_KEY"
      [analytics]
      enabled = false
      [agents]
      enabled = false
      [features]
      shell_tool = false
      unified_exec = false
      view_image = false
      goals = false
      [mcp_servers.belljar]
      command = "${command}"
      args = ${JSON.stringify(args)}
      default_tools_approval_mode = "approve"
      tool_timeout_sec = 120
    `);
    return { argv: ["codex", "exec", "--skip-git-repo-check", "Do it."], env: { SCRIPTED_KEY: "none" } };
  },
  opencode(model, home, command) {
    const scripted = {
      npm: "@ai-sdk/openai-compatible",
      options: { baseURL: `${model}/v1`, apiKey: "none" },
      models: { scripted: { tool_call: true, attachment: true, modalities: { input: ["text", "image"], output: ["text"] }, limit: { context: 200000, output: 8000 } } },
    };
    put(`${home}/.config/opencode/opencode.json`, {
      model: "scripted/scripted",
      autoupdate: false,
      share: "disabled",
      tool_output: { max_lines: 10000, max_bytes: 65536 },
      provider: { scripted },
      permission: { "*": "deny", "belljar_*": "allow" },
      mcp: { belljar: { type: "local", command } },
    });
    return { argv: ["opencode", "run", "Do it."], env: { OPENCODE_DISABLE_AUTOUPDATE: "1", OPENCODE_DISABLE_MODELS_FETCH: "1", OPENCODE_DISABLE_LSP_DOWNLOAD: "1" } };
  },
  "gemini-cli"(model, home, [command, ...args]) {
    put(`${home}/.gemini/settings.json`, {
      security: { auth: { selectedType: "gemini-api-key" }, folderTrust: { enabled: false } },
      privacy: { usageStatisticsEnabled: false },
      general: { enableAutoUpdate: false },
      mcpServers: { belljar: { command, args } },
    });
    put(`${home}/.gemini/policies/belljar.toml`, `
      [[rule]]
      toolName = "*"
      decision = "deny"
      priority = 900
      [[rule]]
      toolName = "*"
      mcpName = "belljar"
      decision = "allow"
      priority = 901
    `);
    return { argv: ["gemini", "--prompt", "Do it.", "--model", "gemini-2.5-pro"], env: { GEMINI_API_KEY: "none", GOOGLE_GEMINI_BASE_URL: model } };
  },
};
