// Prints, for each file named on standard input, FILE:LINE of each name that eslint's
// no-unused-vars says is declared and never used. Its argument is the node_modules with
// eslint and the parser of TypeScript. A file on which the rule fails has line 0.
'use strict';
const fs = require('fs');
const path = require('path');
const resolve = require('module').createRequire(path.join(process.argv[2], 'x.js'));
const { Linter } = resolve('eslint');
const parser = resolve('@typescript-eslint/parser');

const linter = new Linter();
for (const file of fs.readFileSync(0, 'utf8').split('\n').filter(Boolean)) {
  let messages;
  try {
    messages = linter.verify(fs.readFileSync(file, 'utf8'), [{
      files: ['**/*.{ts,tsx,js,jsx,mjs,cjs}'],
      languageOptions: { parser, parserOptions: { ecmaFeatures: { jsx: !file.endsWith('.ts') } } },
      linterOptions: { reportUnusedDisableDirectives: 'off', noInlineConfig: true },
      rules: { 'no-unused-vars': ['error', { args: 'none', caughtErrors: 'none' }] },
    }], { filename: path.basename(file) });
  } catch {
    console.log(`${file}:0`);
    continue;
  }
  for (const m of messages.filter((m) => m.ruleId === 'no-unused-vars')) {
    console.log(`${file}:${m.line}`);
  }
}
