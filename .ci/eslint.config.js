// Rules for the modules of the report page.

import js from "@eslint/js";
import globals from "globals";

export default [
  { ignores: ["**/vendor/**"] },
  {
    files: ["**/*.js"],
    languageOptions: {
      ecmaVersion: 2023,
      sourceType: "module",
      globals: { ...globals.browser, Plotly: "readonly" },
    },
    linterOptions: { reportUnusedDisableDirectives: "error" },
    rules: {
      ...js.configs.recommended.rules,
      "array-callback-return": "error",
      complexity: ["error", 12],
      curly: ["error", "multi-line"],
      "default-param-last": "error",
      eqeqeq: "error",
      "max-depth": ["error", 3],
      "max-len": ["error", { code: 100, ignoreUrls: true }],
      "max-lines": ["error", 600],
      "max-lines-per-function": ["error", 50],
      "max-params": ["error", 5],
      "no-duplicate-imports": "error",
      "no-implicit-globals": "error",
      "no-param-reassign": "error",
      "no-restricted-properties": ["error",
        { property: "innerHTML", message: "texts of documents are never markup" },
        { property: "outerHTML", message: "texts of documents are never markup" },
        { property: "insertAdjacentHTML", message: "texts of documents are never markup" }],
      "no-shadow": "error",
      "no-throw-literal": "error",
      "no-unused-expressions": "error",
      "no-use-before-define": ["error", { functions: false, variables: false }],
      "no-var": "error",
      "object-shorthand": "error",
      "prefer-const": ["error", { destructuring: "all" }],
      "prefer-template": "error",
    },
  },
];
