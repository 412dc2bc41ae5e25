// Truth tables of the concepts of base/context.
import lamina;
import lamina.std;
using namespace lamina;

namespace {

struct whole {
  int concurrency() const { return 1; }
  template <class F> void bulk(std::size_t n, const F& f) {
    while (n) f(--n);
  }
};
struct no_width {
  template <class F> void bulk(std::size_t n, const F& f) {
    while (n) f(--n);
  }
};
struct no_bulk {
  int concurrency() const { return 1; }
};
struct bulk_of_int : no_bulk {
  void bulk(std::size_t, int) {}
};
struct width_in_words : no_width {
  std::string_view concurrency() const { return "one"; }
};

// Scheduler: has `bulk(n, f)` and `int concurrency()`.
static_assert(Scheduler<whole>);
static_assert(!Scheduler<const whole>);  // its bulk is not const
static_assert(!Scheduler<no_width>);
static_assert(!Scheduler<no_bulk>);
static_assert(!Scheduler<bulk_of_int>);
static_assert(!Scheduler<width_in_words>);
static_assert(!Scheduler<int>);

}  // namespace
