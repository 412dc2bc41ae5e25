// A snippet whose error says something else.
// expect: no key `result` in this dict; its keys are: `input`
import lamina;

constexpr lamina::dict out(lamina::key<"output"> = 1);
#ifdef BAD
int value = out[lamina::key<"result">];
#endif
