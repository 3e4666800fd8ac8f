// Prints, for each file named on standard input, one line of JSON with its functions:
// where each starts and ends, and what eslint's complexity and sonarjs's
// cognitive-complexity count. Its argument is the node_modules with both.
'use strict';
const fs = require('fs');
const path = require('path');
const modules = process.argv[2];
const resolve = require('module').createRequire(path.join(modules, 'x.js'));
const load = (name) => resolve(name.includes('/cjs/') ? path.join(modules, name) : name);
const { Linter } = load('eslint');
const { builtinRules } = load('eslint/use-at-your-own-risk');
const parser = load('@typescript-eslint/parser');
const cognitive = load('eslint-plugin-sonarjs/cjs/S3776/rule.js').rule;
const { getMainFunctionTokenLocation } = load('eslint-plugin-sonarjs/cjs/helpers/location.js');

let functions;
const place = (loc) => `${loc.start.line}:${loc.start.column}`;

// wrapped is a rule whose reports are kept instead of shown.
const wrapped = (rule, keep) => ({
  meta: { ...rule.meta, schema: false },
  create(context) {
    const own = Object.create(context, { report: { value: (d) => keep(d) } });
    return rule.create(own);
  },
});

const plugin = {
  rules: {
    functions: {
      create(context) {
        return {
          ':function'(node) {
            functions.push({
              start: node.range[0], end: node.range[1], line: node.loc.start.line,
              cyclomatic: 0, cognitive: 0, node,
              main: place(getMainFunctionTokenLocation(node, node.parent, context)),
            });
          },
        };
      },
    },
    complexity: wrapped(builtinRules.get('complexity'), (d) => {
      const f = functions.find((f) => f.node === d.node);
      // The value of a field is reported a second time, as the field's code path.
      if (f && !f.cyclomatic) f.cyclomatic = d.data.complexity;
    }),
    cognitive: wrapped(cognitive, (d) => {
      const f = functions.find((f) => f.main === place(d.loc));
      if (f) f.cognitive = d.data.complexityAmount;
    }),
  },
};

const linter = new Linter();
for (const file of fs.readFileSync(0, 'utf8').split('\n').filter(Boolean)) {
  functions = [];
  const messages = linter.verify(fs.readFileSync(file, 'utf8'), [{
    files: ['**/*.{ts,tsx,js,jsx,mjs,cjs}'],
    plugins: { q: plugin },
    languageOptions: {
      parser,
      parserOptions: { ecmaFeatures: { jsx: !file.endsWith('.ts') } },
    },
    linterOptions: { noInlineConfig: true },
    rules: { 'q/functions': 2, 'q/complexity': [2, 0], 'q/cognitive': [2, 0] },
  }], { filename: `file${path.extname(file)}` }); // eslint leaves node_modules out
  const fatal = messages.find((m) => m.fatal);
  console.log(JSON.stringify({
    file, fatal: fatal ? fatal.message : '',
    functions: functions.map(({ node, main, ...f }) => f),
  }));
}
