// expect: `counter` declares `plain_key` and has no `std::size_t hash() const`
import lamina;
import lamina.std;
using namespace lamina;

class counter {
 public:
  using plain_key = void;
  explicit counter(int n) : count_(n) {}
  bool operator==(const counter&) const = default;
#ifndef BAD
  std::size_t hash() const { return static_cast<std::size_t>(count_); }
#endif

 private:
  int count_;
};
void use() { shared_cache<counter, int> c; }
