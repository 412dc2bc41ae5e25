// Truth tables of the concepts of base/tensor.
import lamina;
import lamina.std;
using namespace lamina;

namespace {

enum class plain : int { zero };

// Element: a type that a tensor can hold.
static_assert(Element<float>);
static_assert(Element<double>);
static_assert(Element<float16>);
static_assert(Element<bfloat16>);
static_assert(Element<std::int8_t>);
static_assert(Element<std::uint8_t>);
static_assert(Element<std::int32_t>);
static_assert(Element<std::int64_t>);
static_assert(Element<bool>);
static_assert(!Element<long double>);
static_assert(!Element<char>);
static_assert(Element<std::uint64_t>);
static_assert(!Element<plain>);
static_assert(!Element<const float>);
static_assert(!Element<float&>);
static_assert(!Element<void>);
static_assert(!Element<vector<float>>);

// ValueList: a sequence of values, as a parameter.
static_assert(ValueList<std::vector<any_value>>);
static_assert(ValueList<std::array<any_value, 2>>);
static_assert(!ValueList<std::vector<any_tensor>>);
static_assert(!ValueList<any_value>);

// NamedValueList: the same with names.
static_assert(NamedValueList<std::vector<named_value>>);
static_assert(!NamedValueList<std::vector<any_value>>);

}  // namespace
