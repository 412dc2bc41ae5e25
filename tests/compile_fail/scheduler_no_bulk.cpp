// expect: my_threads is no scheduler: it needs `bulk(n, f)`, which calls f(i) for each std::size_t i below n and returns when all are done
// within: 13 lines
import lamina;

struct my_threads {
  int concurrency() const { return 2; }
#ifndef BAD
  template <class F> void bulk(decltype(sizeof(0)) n, const F& f) {
    while (n) f(--n);
  }
#endif
};
void use(my_threads& mine) { lamina::context where(mine); }
