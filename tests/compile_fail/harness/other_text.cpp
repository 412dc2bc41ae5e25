// A snippet with another error than the expected one.
// expect: no key `result` in this dict; its keys are: `input`
import lamina;
using namespace lamina::literals;

constexpr lamina::dict out("output"_key = 1);
#ifdef BAD
int value = out["result"_key];
#endif
