// A snippet without a mistake.
// expect: anything
import lamina;
