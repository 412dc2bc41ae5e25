// expect: keys of a cache own what they hold: the key is `std::basic_string_view<char>`, which looks at memory of others; hold a std::string or std::vector
import lamina;
import lamina.std;
using namespace lamina;

#ifdef BAD
using name = std::string_view;
#else
using name = std::string;
#endif
void use() { shared_cache<name, int> c; }
