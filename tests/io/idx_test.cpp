// The idx format, plain and compressed.
#include <boost/test/unit_test.hpp>

#include <cstdint>
#include <string>

#include "files.h"

import lamina;

using namespace lamina;
using test_files::idx;
using test_files::says;

namespace {

// Expects an error with these words for the plain file and, if long enough, for the compressed one.
void refused(const std::string& bytes, std::initializer_list<std::string_view> words) {
  test_files::folder dir;
  auto before = memory::counters().current;
  test_files::write_raw(dir / "plain", bytes);
  BOOST_CHECK_EXCEPTION(read_idx(dir / "plain"), file_error, (says{words}));
  BOOST_CHECK_EXCEPTION(read_idx(dir / "plain"), file_error, (says{{dir / "plain"}}));
  test_files::write_gzip(dir / "packed", bytes);
  BOOST_CHECK_EXCEPTION(read_idx(dir / "packed"), file_error, (says{words}));
  BOOST_CHECK_EQUAL(memory::counters().current, before);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(io_idx)

BOOST_AUTO_TEST_CASE(bytes_come_back_plain_and_compressed) {
  test_files::folder dir;
  auto bytes = idx(8, {2, 3}, {"\0\1\2\375\376\377", 6});
  test_files::write_raw(dir / "plain", bytes);
  test_files::write_gzip(dir / "packed", bytes);
  for (auto name : {"plain", "packed"}) {
    auto t = read_idx(dir / name);
    BOOST_CHECK(t.type() == (tensor_type{dtype::uint8, {2, 3}}));
    BOOST_CHECK_EQUAL(t.print(), "[[  0   1   2]\n [253 254 255]]");
  }
}

BOOST_AUTO_TEST_CASE(wider_elements_are_turned_from_big_endian) {
  test_files::folder dir;
  auto printed = [&](const std::string& bytes) {
    test_files::write_raw(dir / "a", bytes);
    return read_idx(dir / "a").print();
  };
  BOOST_CHECK_EQUAL(printed(idx(9, {2}, {"\377\1", 2})), "[-1  1]");
  BOOST_CHECK_EQUAL(printed(idx(11, {2}, {"\1\2\377\376", 4})), "[258  -2]");
  BOOST_CHECK_EQUAL(printed(idx(12, {1}, {"\0\1\0\0", 4})), "[65536]");
  BOOST_CHECK_EQUAL(printed(idx(13, {1}, {"\277\300\0\0", 4})), "[-1.5]");
  BOOST_CHECK_EQUAL(printed(idx(14, {1}, {"\100\4\0\0\0\0\0\0", 8})), "[2.5]");
  BOOST_CHECK_EQUAL(printed(idx(8, {0, 5}, "")), "[]");
}

BOOST_AUTO_TEST_CASE(damage_is_told_by_field) {
  refused("", {"magic number: expected 4 bytes; the file has 0"});
  refused("ab", {"the file has 2"});
  refused(std::string("\x50\x4b\3\4", 4), {"magic number: expected two zero bytes; got 80 75"});
  refused(idx(10, {1}, "x"), {"magic number: expected element type 8, 9, 11, 12, 13 or 14; got 10"});
  refused(std::string("\0\0\10\0", 4), {"expected rank 1..8; got 0"});
  refused(std::string("\0\0\10\11", 4), {"expected rank 1..8; got 9"});
  refused(std::string("\0\0\10\2\0\0\0\1\0", 9), {"extent 1: the file ends inside its header"});
  refused(idx(8, {0xffffffff, 0xffffffff, 0xffffffff}, "x"),
          {"extents: [4294967295x4294967295x4294967295] has more elements than memory can hold"});
  refused(idx(8, {0xffffffff, 0xffff}, "x"),
          {"elements: expected 281470681677825 bytes for uint8[4294967295x65535]; got at most "});
  refused(idx(8, {2, 2}, "12345"), {"elements: expected 4 bytes for uint8[2x2]; got more"});
}

BOOST_AUTO_TEST_CASE(too_few_elements_are_told) {
  test_files::folder dir;
  test_files::write_raw(dir / "plain", idx(8, {2, 2}, "123"));
  BOOST_CHECK_EXCEPTION(
      read_idx(dir / "plain"), file_error,
      (says{{"elements: expected 4 bytes for uint8[2x2]; got at most 3 from a file of 15 bytes", "truncated"}}));
  test_files::write_gzip(dir / "packed", idx(8, {2, 2}, "123"));
  BOOST_CHECK_EXCEPTION(read_idx(dir / "packed"), file_error,
                        (says{{"elements: expected 4 bytes for uint8[2x2]; got 3"}}));
}

BOOST_AUTO_TEST_CASE(damaged_compression_is_told) {
  test_files::folder dir;
  std::string noise;
  for (unsigned i = 0; i < 4000; ++i) noise += static_cast<char>(i * i * 2654435761u >> 13);
  test_files::write_gzip(dir / "whole", idx(8, {4000}, noise));
  auto bytes = test_files::read_raw(dir / "whole");
  BOOST_CHECK_EQUAL(read_idx(dir / "whole").bytes(), 4000u);

  test_files::write_raw(dir / "cut", bytes.substr(0, bytes.size() / 2));
  BOOST_CHECK_EXCEPTION(read_idx(dir / "cut"), file_error, (says{{dir / "cut", "the compressed data ends too early"}}));
  test_files::write_raw(dir / "no_sum", bytes.substr(0, bytes.size() - 8));
  BOOST_CHECK_EXCEPTION(read_idx(dir / "no_sum"), file_error, (says{{"the compressed data ends too early"}}));
  auto flipped = bytes;
  flipped[bytes.size() - 6] ^= 1;
  test_files::write_raw(dir / "sum", flipped);
  BOOST_CHECK_EXCEPTION(read_idx(dir / "sum"), file_error,
                        (says{{"the compressed data is damaged", "incorrect data check"}}));
  auto twisted = bytes;
  for (std::size_t i = 20; i < 200; ++i) twisted[i] = static_cast<char>(0xff);
  for (const auto& damaged : {flipped, twisted}) {
    test_files::write_raw(dir / "damaged", damaged);
    BOOST_CHECK_EXCEPTION(read_idx(dir / "damaged"), file_error, [](const file_error& e) {
      return std::string_view(e.what()).find("<fd:") == std::string_view::npos;
    });
  }
}

BOOST_AUTO_TEST_CASE(a_bomb_takes_no_more_memory_than_its_header_promises) {
  test_files::folder dir;
  test_files::write_gzip(dir / "bomb", idx(8, {1000}, std::string(50'000'000, '\0')));
  memory::trim();
  memory::reset_peak();
  auto before = memory::counters().current;
  BOOST_CHECK_EXCEPTION(read_idx(dir / "bomb"), file_error, (says{{"expected 1000 bytes for uint8[1000]; got more"}}));
  BOOST_CHECK_LE(memory::counters().peak - before,
                 1280);  // 1000 bytes and a header, rounded by the allocator
}

BOOST_AUTO_TEST_CASE(files_that_cannot_be_read_are_named_with_the_reason) {
  test_files::folder dir;
  BOOST_CHECK_EXCEPTION(read_idx(dir / "none"), file_error, (says{{dir / "none", "No such file or directory"}}));
  BOOST_CHECK_EXCEPTION(read_idx(dir.path.string()), file_error, (says{{"Is a directory"}}));
  test_files::unprivileged user;
  test_files::folder own;
  test_files::write_raw(own / "a", idx(8, {1}, "x"));
  std::filesystem::permissions(own / "a", std::filesystem::perms::none);
  BOOST_CHECK_EXCEPTION(read_idx(own / "a"), file_error, (says{{own / "a", "Permission denied"}}));
}

BOOST_AUTO_TEST_SUITE_END()
