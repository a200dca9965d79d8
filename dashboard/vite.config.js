// Builds the pages into crates/web/assets, which the router has inside. File names have no hashes and the output depends
// on nothing but the sources and package-lock.json, so that a test can compare it with what is committed.
import { readFileSync } from 'node:fs';
import { defineConfig } from 'vite';

const LIBRARIES = ['preact', 'uplot', '@fontsource-variable/inter'];

/** The licences of what the pages contain. */
function licenses() {
  return {
    name: 'licenses',
    generateBundle() {
      const text = LIBRARIES.map((library) => {
        const folder = new URL(`node_modules/${library}/`, import.meta.url);
        const { version } = JSON.parse(readFileSync(new URL('package.json', folder), 'utf8'));
        return `${library} ${version}\n\n${readFileSync(new URL('LICENSE', folder), 'utf8').trim()}\n`;
      });
      this.emitFile({ type: 'asset', fileName: 'assets/LICENSES.txt', source: text.join('\n----\n\n') });
    },
  };
}

export default defineConfig({
  plugins: [licenses()],
  esbuild: { jsx: 'automatic', jsxImportSource: 'preact', legalComments: 'none' },
  build: {
    outDir: '../crates/web/assets',
    emptyOutDir: true,
    target: 'es2022',
    assetsInlineLimit: 0,
    cssCodeSplit: false,
    modulePreload: { polyfill: false },
    rollupOptions: {
      output: {
        entryFileNames: 'assets/app.js',
        inlineDynamicImports: true,
        assetFileNames: ({ names }) => (names[0]?.endsWith('.woff2') ? 'assets/inter.woff2' : 'assets/app[extname]'),
      },
    },
  },
  server: { proxy: { '/api': 'http://127.0.0.1:9626' } },
});
