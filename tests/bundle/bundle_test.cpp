// Bundles: written here, linked into plain C programs, run there, and compared bit by bit with runs in this process.
#include <boost/test/unit_test.hpp>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

import lamina;
import lamina.bundle;

#include "nets.h"

using namespace lamina;
using namespace nets_test;

namespace {

const std::string here = std::string(FOLDER) + "/" + std::string(name_of(target_isa()));

std::string folder(const std::string& name) {
  auto path = here + "/" + name;
  std::filesystem::remove_all(path);
  std::filesystem::create_directories(path);
  return path;
}
std::string text_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream s;
  s << in.rdbuf();
  return s.str();
}
void write_bytes(const std::string& path, const void* data, std::size_t n) {
  std::ofstream(path, std::ios::binary).write(static_cast<const char*>(data), static_cast<std::streamsize>(n));
}
/// The exit status of a command, whose words go into `log`.
int run(const std::string& command, const std::string& log) {
  const int status = std::system(("( " + command + " ) > '" + log + "' 2>&1").c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}
void succeeds(const std::string& command, const std::string& folder) {
  const int status = run(command, folder + "/log");
  BOOST_TEST(status == 0, command << " gave " << status << ": " << text_of(folder + "/log"));
}

template <class T>
bool same_as_file(view<const T> a, const std::string& file) {
  auto bytes = text_of(file);
  return bytes.size() == a.size() * sizeof(T) && std::memcmp(bytes.data(), a.data(), bytes.size()) == 0;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(bundles)

BOOST_AUTO_TEST_CASE(lenet_in_c_gives_the_same_bits) {
  const auto at = folder("lenet");
  model<lenet, input<"N", 1, 28, 28>> net({.seed = 42});
  auto made = bundle::write(net, {.name = "lenet", .inputs = {{1, 1, 28, 28}}, .directory = at, .source = true, .text = true});
  const auto x = random_tensor<images>({1, 1, 28, 28}, 1);
  write_bytes(at + "/in", x.data().data(), 784 * 4);
  auto expected = net(x);
  succeeds(std::string(CC) + " -std=c11 -Wall -Wextra -Wpedantic -Werror -O1 -I" + at + " -c " SOURCES "/lenet.c -o " + at + "/main.o", at);
  succeeds("cd " + at + " && " CXX " -nostdlib++ -static main.o lenet.o -lm -o lenet && ./lenet lenet.weights in out", at);
  BOOST_TEST(same_as_file(expected.data(), at + "/out"));
}

BOOST_AUTO_TEST_SUITE_END()
