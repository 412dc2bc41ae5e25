// Schedulers and stop tokens that lack a member.
import lamina;

// case: scheduler_no_bulk
// expect: my_threads is not a scheduler: it needs `bulk(n, f)`, which calls f(i) for each std::size_t i below n and returns when all are done
// within: 13 lines
namespace scheduler_no_bulk {
struct my_threads {
  int concurrency() const { return 2; }
#ifndef BAD
  template <class F> void bulk(decltype(sizeof(0)) n, const F& f) {
    while (n) f(--n);
  }
#endif
};
void use(my_threads& mine) { lamina::context where(mine); }
}  // namespace scheduler_no_bulk

// case: scheduler_no_concurrency
// expect: my_threads is not a scheduler: it needs `int concurrency()`, the number of calls that may run at once
// within: 13 lines
namespace scheduler_no_concurrency {
struct my_threads {
#ifndef BAD
  int concurrency() const { return 2; }
#endif
  template <class F> void bulk(decltype(sizeof(0)) n, const F& f) {
    while (n) f(--n);
  }
};
void use(my_threads& mine) { lamina::context where(mine); }
}  // namespace scheduler_no_concurrency
