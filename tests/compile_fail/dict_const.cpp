// expect: no key `result` in this dict; its keys are: `output`
import lamina;
using namespace lamina::literals;

const lamina::dict out("output"_key = 1);
#ifdef BAD
int value = out["result"_key];
#else
int value = out["output"_key];
#endif
