// Dictionaries: missing and repeated keys.
import lamina;
using namespace lamina::literals;
using namespace lamina;

// case: dict_argument
// expect: argument 1 of dict(...) is a `const char *`; it takes entries, each a name in quotes with the suffix `_key`, `=`, and a value
auto dict_argument(const matrix<float>& x) {
#ifdef BAD
  return dict("input", x);
#else
  return dict("input"_key = x);
#endif
}

// case: dict_repeated_key
// expect: key `a` is given twice (positions 0 and 1)
void dict_repeated_key() {
#ifdef BAD
  auto d = dict("a"_key = 1, "a"_key = 2);
#else
  auto d = dict("a"_key = 1, "b"_key = 2);
#endif
}

// case: dict_const
// expect: no key `result` in this dict; its keys are: `output`
namespace dict_const {
const lamina::dict out("output"_key = 1);
#ifdef BAD
int value = out["result"_key];
#else
int value = out["output"_key];
#endif
}  // namespace dict_const

// case: dict_unknown_key
// expect: no key `result` in this dict; its keys are: `output`
namespace dict_unknown_key {
lamina::dict out("output"_key = 1);
#ifdef BAD
int value = out["result"_key];
#else
int value = out["output"_key];
#endif
}  // namespace dict_unknown_key
