// npy and npz: files written by NumPy, files written and read back, and damaged files.
#include <boost/test/unit_test.hpp>

#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "files.h"

import lamina;

using namespace lamina;
using test_files::says;

namespace {

const std::string from_numpy = NUMPY_FILES;

// The arrays of tests/io/numpy/make.py.
any_tensor expected(dtype element, const std::function<double(int)>& rule) {
  any_tensor t(tensor_type{element, {2, 3, 4}});
  with_type(element, [&]<class T>() {
    for (int n = 0; n < 24; ++n) {
      T x{};
      if constexpr (std::is_class_v<T>) x = T(static_cast<float>(rule(n)));
      else x = static_cast<T>(rule(n));
      std::memcpy(t.mutable_data() + static_cast<std::size_t>(n) * sizeof x, &x, sizeof x);
    }
  });
  return t;
}
double plain(int n) { return 3 * n - 20; }

void equal(const any_tensor& a, const any_tensor& b) {
  message_text types;
  types << a.type() << " " << b.type();
  BOOST_REQUIRE_MESSAGE(a.type() == b.type(), types.string());
  BOOST_TEST(std::memcmp(a.data(), b.data(), a.bytes()) == 0, a.print() << "\n" << b.print());
}

std::string npy(std::string_view header, std::string_view elements, char major = 1) {
  std::string s = "\x93NUMPY";
  s += {major, '\0', static_cast<char>(header.size() & 255), static_cast<char>(header.size() >> 8)};
  if (major > 1) s += {'\0', '\0'};
  return (s += header) += elements;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(npy_files)

BOOST_AUTO_TEST_CASE(what_numpy_wrote) {
  const std::pair<const char*, dtype> types[] = {{"f4", dtype::float32}, {"f8", dtype::float64}, {"f2", dtype::float16},
                                                 {"i1", dtype::int8},    {"i2", dtype::int16},   {"i4", dtype::int32},
                                                 {"i8", dtype::int64}};
  for (const auto& [name, element] : types)
    equal(read_npy(from_numpy + "/c_" + name + ".npy"), expected(element, plain));
  equal(read_npy(from_numpy + "/c_u1.npy"), expected(dtype::uint8, [](int n) { return plain(n) + 20; }));
  equal(read_npy(from_numpy + "/c_b1.npy"), expected(dtype::boolean, [](int n) { return n % 2 != 0; }));
  for (const std::string kind : {"fortran_", "swapped_"}) {
    equal(read_npy(from_numpy + "/" + kind + "f4.npy"), expected(dtype::float32, plain));
    equal(read_npy(from_numpy + "/" + kind + "i2.npy"), expected(dtype::int16, plain));
    equal(read_npy(from_numpy + "/" + kind + "i8.npy"), expected(dtype::int64, plain));
  }
  equal(read_npy(from_numpy + "/version_2.npy"), expected(dtype::float32, plain));
  equal(read_npy(from_numpy + "/version_3.npy"), expected(dtype::float32, plain));
  equal(read_npy(from_numpy + "/number.npy"), any_tensor(scalar<double>(0.1)));
  equal(read_npy(from_numpy + "/vector.npy"), any_tensor(vector<std::int32_t>{1, 2, 3}));
  equal(read_npy(from_numpy + "/empty.npy"), any_tensor(tensor_type{dtype::float32, {0, 4}}));
}

BOOST_AUTO_TEST_CASE(archives_that_numpy_wrote) {
  for (const std::string name : {"stored", "deflated"}) {
    const auto arrays = read_npz(from_numpy + "/" + name + ".npz");
    BOOST_TEST_REQUIRE(arrays.size() == (name == "stored" ? 2u : 3u));
    BOOST_TEST(arrays[0].name == "x");
    equal(arrays[0].value, expected(dtype::float32, plain));
    BOOST_TEST(arrays[1].name == "y");
    equal(arrays[1].value, expected(dtype::int64, plain));
  }
  equal(read_npz(from_numpy + "/deflated.npz")[2].value, any_tensor(tensor_type{dtype::float32, {100, 100}}));
  BOOST_TEST(read_npz(from_numpy + "/none.npz").empty());
}

BOOST_AUTO_TEST_CASE(the_bytes_are_those_of_numpy) {
  test_files::folder dir;
  for (const std::string name :
       {"c_f4", "c_f8", "c_f2", "c_i1", "c_i2", "c_i4", "c_i8", "c_u1", "c_b1", "number", "vector", "empty"}) {
    const auto path = from_numpy + "/" + name + ".npy";
    write_npy(dir / "a.npy", read_npy(path));
    BOOST_TEST(test_files::read_raw(dir / "a.npy") == test_files::read_raw(path), name);
  }
}

BOOST_AUTO_TEST_CASE(types_that_numpy_lacks_travel_as_integers) {
  test_files::folder dir;
  const std::pair<dtype, dtype> types[] = {{dtype::float8_e4m3fn, dtype::uint8},
                                           {dtype::float8_e4m3fnuz, dtype::uint8},
                                           {dtype::float8_e5m2, dtype::uint8},
                                           {dtype::float8_e5m2fnuz, dtype::uint8},
                                           {dtype::float8_e8m0fnu, dtype::uint8},
                                           {dtype::float4_e2m1, dtype::uint8},
                                           {dtype::int4, dtype::int8},
                                           {dtype::uint4, dtype::uint8},
                                           {dtype::int2, dtype::int8},
                                           {dtype::uint2, dtype::uint8}};
  for (const auto& [element, read] : types) {
    const any_tensor made = expected(element, [](int n) { return n % 2; });
    write_npy(dir / "a.npy", made);
    const any_tensor again = read_npy(dir / "a.npy");
    BOOST_TEST((again.element() == read));
    equal(again, any_tensor(made.memory(), {read, made.shape()}));
  }
}

BOOST_AUTO_TEST_CASE(strings_are_not_written) {
  test_files::folder dir;
  const any_tensor words = any_tensor::of_strings({2}, std::vector<std::string>{"a", "b"});
  BOOST_CHECK_EXCEPTION(write_npy(dir / "a.npy", words), unsupported_error,
                        says{{"strings cannot be written: npy has no variable-length strings"}});
  BOOST_CHECK_EXCEPTION(write_npz(dir / "a.npz", std::vector<named_tensor>{{"x", words}}), unsupported_error,
                        says{{"strings cannot be written: npy has no variable-length strings"}});
}

BOOST_AUTO_TEST_CASE(every_type_is_written_and_read) {
  test_files::folder dir;
  std::vector<named_tensor> all;
  for (int i = 0; i <= static_cast<int>(dtype::uint64); ++i) {
    const auto element = static_cast<dtype>(i);
    all.push_back({std::string(name_of(element)), expected(element, [](int n) { return n % 2; })});
    write_npy(dir / "a.npy", all.back().value);
    equal(read_npy(dir / "a.npy"), all.back().value);
  }
  all.push_back({"a name/with folders", any_tensor(tensor_type{dtype::float32, {0}})});
  all.push_back({"number", any_tensor(scalar<double>(-0.0))});
  for (bool compressed : {false, true}) {
    write_npz(dir / "a.npz", all, compressed);
    const auto again = read_npz(dir / "a.npz");
    BOOST_TEST_REQUIRE(again.size() == all.size());
    for (std::size_t i = 0; i < all.size(); ++i) {
      BOOST_TEST(again[i].name == all[i].name);
      equal(again[i].value, all[i].value);
    }
  }
  write_npz(dir / "none.npz", {});
  BOOST_TEST(read_npz(dir / "none.npz").empty());
  BOOST_CHECK_EXCEPTION(write_npz(dir / "b.npz", std::vector<named_tensor>{all[0], all[0]}), value_error,
                        (says{{"b.npz: array `float32`: two arrays have this name"}}));
}

BOOST_AUTO_TEST_CASE(types_that_lamina_does_not_have) {
  BOOST_CHECK_EXCEPTION(
      read_npy(from_numpy + "/complex.npy"), unsupported_error,
      (says{{"complex.npy: the element type `<c8` is not supported; expected one of f4 f8 f2 V2 i1"}}));
  BOOST_CHECK_EXCEPTION(read_npy(from_numpy + "/records.npy"), unsupported_error,
                        (says{{"the element type `a structured type` is not supported"}}));
  test_files::folder dir;
  test_files::write_raw(dir / "a", npy("{'descr': '<f4', 'fortran_order': False, 'shape': ()}", "abcd", 4));
  BOOST_CHECK_EXCEPTION(read_npy(dir / "a"), unsupported_error,
                        (says{{"a: version 4.0 of npy; 1.0, 2.0 and 3.0 are supported"}}));
}

BOOST_AUTO_TEST_CASE(damaged_arrays) {
  test_files::folder dir;
  const auto path = dir / "a.npy";
  auto refuses = [&](const std::string& bytes, std::string_view words) {
    test_files::write_raw(path, bytes);
    BOOST_CHECK_EXCEPTION(read_npy(path), file_error, (says{{path, words}}));
  };
  auto with = [](std::string_view descr, std::string_view order, std::string_view dims) {
    return "{'descr': " + std::string(descr) + ", 'fortran_order': " + std::string(order) +
           ", 'shape': " + std::string(dims) + ", }\n";
  };
  refuses("", "header: expected at least 10 bytes of magic number, version and length; got 0");
  refuses("\x93NUMPX\x01" + std::string(20, ' '), "magic number: expected \\x93NUMPY");
  refuses(npy(std::string(70, ' '), "").substr(0, 60), "header: expected 70 bytes; got 50 (is it truncated?)");
  refuses(npy(with("'<f4'", "False", "(2,)"), "abcd"),
          "elements: expected 8 bytes for float32[2]; got 4 (is it truncated?)");
  refuses(npy(with("'<f4'", "False", "(2,)"), "abcdefghi"), "elements: expected 8 bytes for float32[2]; got 9");
  refuses(npy(with("'<f4'", "False", "(4611686018427387904, 4)"), "abcd"), "has more elements than memory can hold");
  refuses(npy(with("'<f4'", "False", "(99999999999999999999,)"), "abcd"), "above 2^63 - 1");
  refuses(npy(with("'<f4'", "False", "(0, 4611686018427387904, 4)"), ""), "has more elements than memory can hold");
  refuses(npy(with("'<f4'", "False", "(1,1,1,1,1,1,1,1,1)"), "abcd"), "more than 8 extents");
  refuses(npy(with("'<f4'", "False", "(-1,)"), "abcd"), "expected a whole number before `-1,)");
  refuses(npy(with("'<f4'", "Maybe", "(1,)"), "abcd"), "expected True or False");
  refuses(npy("{'descr': '<f4', 'shape': (1,)}", "abcd"), "header: the key fortran_order is missing");
  refuses(npy("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", "abcd"),
          "header: the key descr is given twice");
  refuses(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'more': 1}", "abcd"), "got `more`");
  refuses(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} x", "abcd"),
          "header: expected nothing after the dict; got `x");
  refuses(npy(with("'|b1'", "False", "(2,)"), "\x01\x02"), "element 1 is 2");
  test_files::write_raw(path, npy(with("'<i2'", "True", "(2L, 2L)"), std::string("\1\0\2\0\3\0\4\0", 8)));
  equal(read_npy(path), any_tensor(matrix<std::int16_t>{{1, 3}, {2, 4}}));
}

BOOST_AUTO_TEST_CASE(damaged_archives) {
  test_files::folder dir;
  const auto path = dir / "a.npz";
  std::vector<named_tensor> arrays{{"x", expected(dtype::float32, plain)}, {"y", expected(dtype::int64, plain)}};
  auto refuses = [&](const std::string& bytes, std::string_view words) {
    test_files::write_raw(path, bytes);
    BOOST_CHECK_EXCEPTION(read_npz(path), file_error, (says{{path, words}}));
  };
  write_npz(path, arrays);
  const auto good = test_files::read_raw(path);
  const auto entry = good.find("PK\1\2"), end = good.find("PK\5\6");
  auto with = [&](std::size_t at, std::string_view bytes) {
    auto s = good;
    return s.replace(at, bytes.size(), bytes);
  };
  for (std::size_t n = 0; n < good.size(); n += 13) refuses(good.substr(0, n), ": ");
  refuses("", "at least 22 bytes");
  refuses(std::string(100, 'x'), "no end-of-archive record found");
  refuses(with(80, "!"), "array `x.npy` ");
  refuses(with(end - 30, "Q"), ": ");
  refuses(with(entry + 8, "\1"), "array `x.npy` is encrypted");
  refuses(with(entry + 10, "\x0c"), "is compressed by method 12; expected 0 (stored) or 8 (deflated)");
  refuses(with(entry + 24, "\xff\xff\xff\x7f"), "has inconsistent sizes: 2147483647 bytes uncompressed and ");
  refuses(with(entry + 16, "abcd"), "is damaged: its checksum differs from the directory's");
  refuses(with(entry + 42, "\x05"), "has no header at the offset that the directory declares");
  refuses(with(entry + 46, "y"), "array `y.npy` occurs twice");
  refuses(with(entry + 48, "x"), "array `x.xpy` is not an npy file");
  refuses(with(end + 10, "\xff\xff"), "directory: expected at most " + std::to_string(good.size() / 46) +
                                          " entries in " + std::to_string(good.size()) + " bytes; got 65535");
  refuses(with(end + 10, "\x03"), "directory");
  write_npz(path, arrays, true);
  auto packed = test_files::read_raw(path);
  packed[60] = static_cast<char>(packed[60] ^ 1);
  refuses(packed, "array `x.npy` ");
}

// Zip64: numbers beyond 32 bits are in an extra field.
BOOST_AUTO_TEST_CASE(wide_archives) {
  test_files::folder dir;
  const auto path = dir / "a.npz";
  write_npz(path, std::vector<named_tensor>{{"x", expected(dtype::float32, plain)}});
  auto s = test_files::read_raw(path);
  const auto entry = s.find("PK\1\2");
  const std::string size = s.substr(entry + 24, 4) + std::string(4, '\0'), ones = "\xff\xff\xff\xff";
  s.replace(entry + 20, 8, ones + ones).replace(entry + 42, 4, ones);
  const std::string extra = std::string("\1\0\x18\0", 4) + size + size + std::string(8, '\0');
  s[entry + 30] = static_cast<char>(extra.size());
  s.insert(entry + 46 + 5, extra);
  const auto end = s.find("PK\5\6");
  auto eight = [](std::uint64_t n) {
    std::string b;
    for (int i = 0; i < 8; ++i) b += static_cast<char>(n >> 8 * i & 255);
    return b;
  };
  const std::string wide = "PK\6\6" + eight(44) + std::string(12, '\0') + eight(1) + eight(1) + eight(end - entry) +
                           eight(entry) + "PK\6\7" + std::string(4, '\0') + eight(end) + std::string("\1\0\0\0", 4);
  s.insert(end, wide);
  const auto last = s.find("PK\5\6");
  s.replace(last + 8, 2, "\xff\xff").replace(last + 10, 2, "\xff\xff").replace(last + 16, 4, ones);
  test_files::write_raw(path, s);
  const auto arrays = read_npz(path);
  BOOST_TEST_REQUIRE(arrays.size() == 1u);
  equal(arrays[0].value, expected(dtype::float32, plain));
}

BOOST_AUTO_TEST_SUITE_END()
