// expect: no key `result` in this dict; its keys are: `output`
import lamina;

const lamina::dict out(lamina::key<"output"> = 1);
#ifdef BAD
int value = out[lamina::key<"result">];
#else
int value = out[lamina::key<"output">];
#endif
