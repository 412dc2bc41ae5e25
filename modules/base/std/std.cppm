module;
#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cmath>
#include <concepts>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <exception>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <numeric>
#include <optional>
#include <ostream>
#include <set>
#include <source_location>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

// The only interface unit that includes standard headers: every other interface imports this one, which makes the
// library's interfaces ten times smaller and faster to build than includes in each of them.
export module lamina.std;

// clang-format off
export namespace std {
// sizes and integers
using std::byte; using std::max_align_t; using std::nullptr_t; using std::ptrdiff_t; using std::size_t;
using std::int8_t; using std::int16_t; using std::int32_t; using std::int64_t; using std::intptr_t;
using std::uint8_t; using std::uint16_t; using std::uint32_t; using std::uint64_t; using std::uintptr_t;
using std::numeric_limits;
// types
using std::add_const_t; using std::bool_constant; using std::common_type_t; using std::conditional_t; using std::decay_t;
using std::enable_if_t; using std::false_type; using std::index_sequence; using std::index_sequence_for;
using std::integer_sequence; using std::integral_constant; using std::invoke_result_t; using std::is_arithmetic_v;
using std::is_base_of_v; using std::is_class_v; using std::is_const_v; using std::is_convertible_v;
using std::is_default_constructible_v; using std::is_empty_v; using std::is_enum_v; using std::is_floating_point_v;
using std::is_integral_v; using std::is_pointer_v; using std::is_reference_v; using std::is_same; using std::is_same_v;
using std::is_signed_v; using std::is_trivially_copyable_v; using std::is_unsigned_v; using std::is_void_v;
using std::make_index_sequence; using std::make_integer_sequence; using std::make_signed_t; using std::make_unsigned_t;
using std::remove_const_t; using std::remove_cv_t; using std::remove_cvref_t; using std::remove_pointer_t;
using std::remove_reference_t; using std::true_type; using std::type_identity; using std::type_identity_t;
using std::underlying_type_t; using std::void_t; using std::is_constant_evaluated; using std::is_invocable_v;
using std::is_aggregate_v; using std::is_array_v; using std::is_member_pointer_v; using std::is_null_pointer_v; using std::is_union_v;
using std::is_lvalue_reference_v; using std::remove_extent_t; using std::is_nothrow_move_constructible_v; using std::is_copy_constructible_v;
using std::is_trivially_destructible_v;
// concepts
using std::constructible_from; using std::convertible_to; using std::copyable; using std::default_initializable;
using std::derived_from; using std::equality_comparable; using std::floating_point; using std::integral;
using std::invocable; using std::movable; using std::regular_invocable; using std::same_as; using std::signed_integral;
using std::unsigned_integral; using std::predicate;
// utilities
using std::as_const; using std::cmp_greater; using std::cmp_less; using std::declval; using std::exchange; using std::forward; using std::in_place; using std::make_pair;
using std::move; using std::pair; using std::swap; using std::tuple; using std::tuple_element; using std::tuple_element_t;
using std::tuple_size; using std::tuple_size_v; using std::get; using std::make_tuple; using std::tie; using std::apply;
using std::optional; using std::nullopt; using std::nullopt_t; using std::variant; using std::visit;
using std::holds_alternative; using std::get_if; using std::monostate; using std::function; using std::hash;
using std::less; using std::equal_to; using std::plus; using std::greater; using std::reference_wrapper; using std::ref;
using std::invoke; using std::bit_cast; using std::bit_floor; using std::bit_width; using std::bit_ceil; using std::popcount; using std::countr_one; using std::countr_zero; using std::endian;
using std::source_location; using std::forward_as_tuple; using std::piecewise_construct;
// memory
using std::addressof; using std::align_val_t; using std::bad_alloc; using std::construct_at; using std::default_delete;
using std::destroy_at; using std::enable_shared_from_this; using std::make_shared; using std::make_unique;
using std::shared_ptr; using std::static_pointer_cast; using std::unique_ptr; using std::weak_ptr; using std::launder;
using std::allocator; using std::allocator_traits; using std::owner_less;
// containers and ranges of memory
using std::array; using std::deque; using std::initializer_list; using std::map; using std::set; using std::span;
using std::string; using std::string_view; using std::unordered_map; using std::vector; using std::to_string;
using std::basic_string; using std::basic_string_view; using std::char_traits; using std::getline; using std::stoll; using std::stod;
using std::begin; using std::end; using std::data; using std::size; using std::empty; using std::back_inserter;
using std::dynamic_extent; using std::to_array; using std::erase_if; using std::erase; using std::next; using std::prev;
using std::advance; using std::distance; using std::reverse_iterator;
// algorithms
using std::all_of; using std::binary_search; using std::any_of; using std::copy; using std::copy_n; using std::count; using std::count_if;
using std::equal; using std::fill; using std::fill_n; using std::find; using std::find_if; using std::iota;
using std::lexicographical_compare; using std::lower_bound; using std::max; using std::max_element; using std::min;
using std::min_element; using std::minmax_element; using std::none_of; using std::nth_element; using std::partial_sort; using std::remove_if;
using std::replace; using std::reverse; using std::rotate; using std::sort; using std::stable_sort; using std::transform;
using std::unique; using std::upper_bound; using std::clamp; using std::accumulate; using std::gcd; using std::for_each;
using std::remove; using std::partition; using std::mismatch; using std::swap_ranges;
// numbers
using std::abs; using std::acos; using std::acosh; using std::asin; using std::asinh; using std::atan; using std::cbrt;
using std::ceil; using std::copysign; using std::cos; using std::erf; using std::erfc; using std::exp; using std::exp2;
using std::expm1; using std::floor; using std::fma; using std::fmax; using std::fmin; using std::fmod; using std::frexp;
using std::isfinite; using std::isinf; using std::isnan; using std::ldexp; using std::log; using std::log10; using std::log1p;
using std::log2; using std::lround; using std::nearbyint; using std::nextafter; using std::pow; using std::round;
using std::signbit; using std::sin; using std::sinh; using std::cosh; using std::sqrt; using std::tan; using std::tanh;
using std::trunc; using std::llround; using std::atan2; using std::rint;
// C
using std::abort; using std::exit; using std::free; using std::getenv; using std::malloc; using std::aligned_alloc;
using std::memchr; using std::memcmp; using std::memcpy; using std::memmove; using std::memset; using std::strcmp;
using std::strlen; using std::strerror; using std::snprintf; using std::printf; using std::fprintf; using std::fputs;
using std::fflush; using std::FILE; using std::fopen; using std::fclose; using std::fread; using std::fwrite; using std::fputc;
using std::strtol; using std::strchr; using std::strtoll; using std::strtod; using std::strtoull; using std::atoi; using std::strncmp;
// threads
using std::atomic; using std::atomic_flag; using std::atomic_signal_fence; using std::atomic_thread_fence; using std::call_once; using std::condition_variable;
using std::lock_guard; using std::memory_order; using std::memory_order_acq_rel; using std::memory_order_acquire;
using std::memory_order_relaxed; using std::memory_order_release; using std::memory_order_seq_cst; using std::mutex;
using std::once_flag; using std::scoped_lock; using std::thread; using std::unique_lock; using std::adopt_lock; using std::cv_status;
namespace this_thread { using std::this_thread::get_id; using std::this_thread::sleep_for; using std::this_thread::yield; }
namespace chrono {
using std::chrono::duration; using std::chrono::duration_cast; using std::chrono::microseconds; using std::chrono::milliseconds;
using std::chrono::nanoseconds; using std::chrono::seconds; using std::chrono::steady_clock; using std::chrono::system_clock;
using std::chrono::time_point; using std::chrono::operator-; using std::chrono::operator+; using std::chrono::operator<;
using std::chrono::operator<=; using std::chrono::operator>; using std::chrono::operator>=; using std::chrono::operator==;
using std::chrono::operator/; using std::chrono::operator*;
}
// errors
using std::current_exception; using std::exception; using std::exception_ptr; using std::invalid_argument;
using std::length_error; using std::logic_error; using std::make_exception_ptr; using std::out_of_range;
using std::rethrow_exception; using std::runtime_error; using std::uncaught_exceptions; using std::terminate;
using std::error_code; using std::system_error; using std::nothrow; using std::nothrow_t;
// streams and files
using std::basic_ostream; using std::ostream; using std::ios_base;
namespace filesystem {
using std::filesystem::path; using std::filesystem::exists; using std::filesystem::is_regular_file; using std::filesystem::file_size;
using std::filesystem::remove; using std::filesystem::rename; using std::filesystem::create_directories; using std::filesystem::is_directory;
}
// operators
using std::operator==; using std::operator!=; using std::operator<; using std::operator>; using std::operator<=;
using std::operator>=; using std::operator<=>; using std::operator+; using std::operator-; using std::operator<<;
using std::operator|; using std::operator&;
using std::strong_ordering; using std::weak_ordering; using std::partial_ordering;
inline namespace literals { inline namespace string_view_literals { using std::literals::string_view_literals::operator""sv; }
inline namespace string_literals { using std::literals::string_literals::operator""s; } }
namespace ranges { using std::ranges::sort; using std::ranges::find; using std::ranges::copy; }
}

// libstdc++'s iterators have their operators in a separate namespace. operator+ is left out: the fold over `+` in
// <ext/type_traits.h> would find it, and Clang would reject that header after an import as a different definition.
#ifdef __GLIBCXX__
export namespace __gnu_cxx {
using __gnu_cxx::operator==; using __gnu_cxx::operator<=>; using __gnu_cxx::operator-;
}
#endif
