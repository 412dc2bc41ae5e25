// Truth tables of the concepts of base/shape.
import lamina;
import lamina.std;
using namespace lamina;

namespace {

enum class plain { zero };
enum unscoped { none };

// Count: an integer that counts something; characters and truth values are integers that do not.
static_assert(Count<int>);
static_assert(Count<unsigned>);
static_assert(Count<long long>);
static_assert(Count<std::int8_t>);
static_assert(Count<std::uint8_t>);
static_assert(Count<std::size_t>);
static_assert(Count<const int>);
static_assert(!Count<bool>);
static_assert(!Count<char>);
static_assert(!Count<wchar_t>);
static_assert(!Count<char8_t>);
static_assert(!Count<char16_t>);
static_assert(!Count<char32_t>);
static_assert(!Count<double>);
static_assert(!Count<plain>);
static_assert(!Count<unscoped>);
static_assert(!Count<int&>);
static_assert(!Count<dim>);

}  // namespace
