// expect: my_flag is not a stop token: it needs `bool stop_requested() const noexcept`, as in std::stop_token
// within: 13 lines
import lamina;

struct my_flag {
  bool set = false;
#ifdef BAD
  bool stop_requested() { return set; }
#else
  bool stop_requested() const noexcept { return set; }
#endif
};
void use(const my_flag& mine) { lamina::stop_scope until(mine); }
