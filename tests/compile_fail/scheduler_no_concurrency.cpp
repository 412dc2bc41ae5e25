// expect: my_threads is no scheduler: it needs `int concurrency()`, the number of calls that may run at once
// within: 13 lines
import lamina;

struct my_threads {
#ifndef BAD
  int concurrency() const { return 2; }
#endif
  template <class F> void bulk(decltype(sizeof(0)) n, const F& f) {
    while (n) f(--n);
  }
};
void use(my_threads& mine) { lamina::context where(mine); }
