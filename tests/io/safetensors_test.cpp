// The safetensors format: round trips, and damaged files, whose errors name file, tensor and expected value.
#include <boost/test/unit_test.hpp>

#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "files.h"

import lamina;

using namespace lamina;
using test_files::says;

namespace {

std::string file_of(const std::string& header, const std::string& data = "", std::uint64_t length = 0) {
  if (!length) length = header.size();
  std::string s;
  for (int i = 0; i < 8; ++i) s += static_cast<char>(length >> (8 * i) & 255);
  return s + header + data;
}

template <class T> any_tensor counting(const shape& s) {
  any_tensor t(tensor_type{dtype_of<T>, s});
  for (std::size_t i = 0; i < t.bytes(); ++i)
    t.mutable_data()[i] = static_cast<std::byte>(dtype_of<T> == dtype::boolean ? i % 2 : i * 37 + 11);
  return t;
}

bool equal(const any_tensor& a, const any_tensor& b) {
  return a.type() == b.type() && (a.bytes() == 0 || std::memcmp(a.data(), b.data(), a.bytes()) == 0);
}

// Writes a damaged file; expects an error with its name and these words.
void refused(const std::string& bytes, std::initializer_list<std::string_view> words) {
  test_files::folder dir;
  auto path = dir / "damaged.safetensors";
  test_files::write_raw(path, bytes);
  auto before = memory::counters().current;
  BOOST_CHECK_EXCEPTION(read_safetensors(path), file_error, (says{words}));
  BOOST_CHECK_EXCEPTION(read_safetensors(path), file_error, (says{{path + ": "}}));
  BOOST_CHECK_EQUAL(memory::counters().current, before);
}

const std::string eight(8, '\1');

}  // namespace

BOOST_AUTO_TEST_SUITE(io_safetensors)

BOOST_AUTO_TEST_CASE(every_element_type_and_shape_comes_back) {
  test_files::folder dir;
  std::vector<named_tensor> all;
  int shapes = 0;
  for (const shape& s : {shape{}, shape{3}, shape{2, 3}, shape{0}, shape{4, 0, 2}, shape{1, 2, 1, 2, 1, 2, 1, 2}}) {
    auto name = [&](const char* type) { return std::string(type) + "." + std::to_string(shapes); };
    all.push_back({name("f32"), counting<float>(s)});
    all.push_back({name("f64"), counting<double>(s)});
    all.push_back({name("f16"), counting<float16>(s)});
    all.push_back({name("bf16"), counting<bfloat16>(s)});
    all.push_back({name("i8"), counting<std::int8_t>(s)});
    all.push_back({name("i16"), counting<std::int16_t>(s)});
    all.push_back({name("i32"), counting<std::int32_t>(s)});
    all.push_back({name("i64"), counting<std::int64_t>(s)});
    all.push_back({name("u8"), counting<std::uint8_t>(s)});
    all.push_back({name("bool"), counting<bool>(s)});
    all.push_back({name("u16"), counting<std::uint16_t>(s)});
    all.push_back({name("u32"), counting<std::uint32_t>(s)});
    all.push_back({name("u64"), counting<std::uint64_t>(s)});
    all.push_back({name("f8_e4m3"), counting<float8_e4m3fn>(s)});
    all.push_back({name("f8_e5m2"), counting<float8_e5m2>(s)});
    all.push_back({name("f8_e8m0"), counting<float8_e8m0fnu>(s)});
    ++shapes;
  }
  std::map<std::string, std::string> metadata{
      {"format", "pt"}, {"quoted \"key\"", "line\nnext \xc3\xa4"}, {"empty", ""}};
  write_safetensors(dir / "a", all, metadata);
  auto file = read_safetensors(dir / "a");
  BOOST_CHECK(file.metadata == metadata);
  BOOST_REQUIRE_EQUAL(file.tensors.size(), all.size());
  for (auto& t : all) {
    auto* found = file.find(t.name);
    BOOST_REQUIRE(found);
    BOOST_CHECK(equal(*found, t.value));
  }
  BOOST_CHECK(!file.find("absent"));
}

BOOST_AUTO_TEST_CASE(types_that_the_format_lacks_are_refused) {
  test_files::folder dir;
  for (const auto element : {dtype::float8_e4m3fnuz, dtype::float8_e5m2fnuz, dtype::float4_e2m1, dtype::int4,
                             dtype::uint4, dtype::int2, dtype::uint2, dtype::string}) {
    const std::vector<named_tensor> one{{"x", any_tensor(tensor_type{element, {2}})}};
    BOOST_CHECK_EXCEPTION(write_safetensors(dir / "a", one), unsupported_error,
                          (says{{"tensor `x`", "safetensors has no type for", name_of(element)}}));
  }
  for (const std::string type : {"", "F4", "I4"})
    refused(file_of("{\"x\":{\"dtype\":\"" + type + "\",\"shape\":[1],\"data_offsets\":[0,1]}}", "a"),
            {"dtype: expected one of F32", "U64 F8_E4M3 F8_E5M2"});
}

BOOST_AUTO_TEST_CASE(a_file_without_tensors_is_a_file) {
  test_files::folder dir;
  write_safetensors(dir / "a", {});
  BOOST_CHECK(read_safetensors(dir / "a").tensors.empty());
  test_files::write_raw(dir / "b", file_of("{}"));
  BOOST_CHECK(read_safetensors(dir / "b").metadata.empty());
}

BOOST_AUTO_TEST_CASE(names_may_hold_any_text) {
  test_files::folder dir;
  std::vector<named_tensor> odd{
      {"", counting<float>({1})}, {"a\"b\\c\n", counting<float>({2})}, {"\xe2\x82\xac", counting<float>({3})}};
  write_safetensors(dir / "a", odd);
  auto file = read_safetensors(dir / "a");
  for (auto& t : odd) BOOST_CHECK(file.find(t.name) && equal(*file.find(t.name), t.value));
  std::vector<named_tensor> broken{{"\xff", counting<float>({1})}};
  BOOST_CHECK_EXCEPTION(write_safetensors(dir / "a", broken), value_error, (says{{dir / "a", "UTF-8"}}));
  BOOST_CHECK_EQUAL(read_safetensors(dir / "a").tensors.size(), 3u);
}

BOOST_AUTO_TEST_CASE(names_that_a_file_cannot_hold_are_refused) {
  test_files::folder dir;
  std::vector<named_tensor> twice{{"w", counting<float>({1})}, {"w", counting<float>({1})}};
  BOOST_CHECK_EXCEPTION(write_safetensors(dir / "a", twice), value_error,
                        (says{{"`w`", "two tensors have this name"}}));
  std::vector<named_tensor> reserved{{"__metadata__", counting<float>({1})}};
  BOOST_CHECK_EXCEPTION(write_safetensors(dir / "a", reserved), value_error, (says{{"reserved"}}));
  BOOST_CHECK_EQUAL(dir.count(), 0);
}

BOOST_AUTO_TEST_CASE(tensors_look_into_the_file_and_are_aligned_whatever_their_order) {
  test_files::folder dir;
  std::vector<named_tensor> mixed{{"flags", counting<bool>({3})},
                                  {"half", counting<float16>({5})},
                                  {"wide", counting<double>({3})},
                                  {"w", counting<float>({7})},
                                  {"steps", counting<std::int64_t>({1})}};
  write_safetensors(dir / "a", mixed);
  auto allocated = memory::counters().allocations;
  auto file = read_safetensors(dir / "a");
  BOOST_CHECK_EQUAL(memory::counters().allocations, allocated);
  for (auto& t : file.tensors) {
    BOOST_CHECK(t.value.memory().is_borrowed());
    BOOST_CHECK_EQUAL(reinterpret_cast<std::uintptr_t>(t.value.data()) % size_of(t.value.element()), 0u);
  }
  BOOST_CHECK_EQUAL(reinterpret_cast<std::uintptr_t>(file.tensors.front().value.data()) % 64, 0u);
}

BOOST_AUTO_TEST_CASE(a_tensor_that_is_not_aligned_is_copied) {
  test_files::folder dir;
  float values[] = {1.5f, -2};
  std::string bytes("\7");
  bytes.append(reinterpret_cast<const char*>(values), sizeof values);
  std::string header =
      R"({"b":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"f":{"dtype":"F32","shape":[2],"data_offsets":[1,9]}})";
  header.append((8 - header.size() % 8) % 8, ' ');
  test_files::write_raw(dir / "a", file_of(header, bytes));
  auto file = read_safetensors(dir / "a");
  auto f = *file.find("f");
  BOOST_CHECK(!f.memory().is_borrowed());
  BOOST_CHECK(file.find("b")->memory().is_borrowed());
  BOOST_CHECK_EQUAL(f.elements<float>()[0], 1.5f);
  BOOST_CHECK_EQUAL(f.elements<float>()[1], -2);
}

BOOST_AUTO_TEST_CASE(a_tensor_keeps_the_mapping_and_survives_the_file) {
  test_files::folder dir;
  write_safetensors(dir / "a", std::vector<named_tensor>{{"w", counting<float>({1000})}});
  auto w = *read_safetensors(dir / "a").find("w");
  write_safetensors(dir / "a", std::vector<named_tensor>{{"w", counting<float>({2})}});
  std::filesystem::remove(dir / "a");
  BOOST_CHECK(equal(w, counting<float>({1000})));
}

BOOST_AUTO_TEST_CASE(writing_to_a_tensor_never_reaches_the_file) {
  test_files::folder dir;
  write_safetensors(dir / "a", std::vector<named_tensor>{{"w", counting<float>({4})}});
  auto before = test_files::read_raw(dir / "a");
  {
    auto file = read_safetensors(dir / "a");
    std::memset(file.tensors[0].value.mutable_data(), 0, 16);
    BOOST_CHECK(equal(*read_safetensors(dir / "a").find("w"), counting<float>({4})));
  }
  BOOST_CHECK(test_files::read_raw(dir / "a") == before);
}

BOOST_AUTO_TEST_CASE(a_file_can_be_saved_over_itself) {
  test_files::folder dir;
  write_safetensors(dir / "a", std::vector<named_tensor>{{"w", counting<float>({4})}});
  auto file = read_safetensors(dir / "a");
  write_safetensors(dir / "a", file.tensors);
  BOOST_CHECK(equal(*read_safetensors(dir / "a").find("w"), counting<float>({4})));
}

// ---- damage ---------------------------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(files_that_cannot_be_read_are_named_with_the_reason) {
  test_files::folder dir;
  BOOST_CHECK_EXCEPTION(read_safetensors(dir / "none"), file_error,
                        (says{{dir / "none", "No such file or directory"}}));
  BOOST_CHECK_EXCEPTION(read_safetensors(dir.path.string()), file_error, (says{{dir.path.string(), "Is a directory"}}));
  BOOST_CHECK_EXCEPTION(read_safetensors("/dev/null"), file_error, (says{{"/dev/null", "not a regular file"}}));
  test_files::unprivileged user;
  test_files::folder own;
  test_files::write_raw(own / "a", file_of("{}"));
  std::filesystem::permissions(own / "a", std::filesystem::perms::none);
  BOOST_CHECK_EXCEPTION(read_safetensors(own / "a"), file_error, (says{{own / "a", "Permission denied"}}));
}

BOOST_AUTO_TEST_CASE(the_length_of_the_header_is_checked) {
  refused("", {"header length: expected 8 bytes; got 0"});
  refused("1234567", {"header length: expected 8 bytes; got 7"});
  refused(file_of("{}", "", 100'000'001), {"header length: expected at most 100000000; got 100000001"});
  refused(file_of("{}", "", ~std::uint64_t(0)), {"18446744073709551615"});
  refused(file_of("{}", "", 50), {"header: expected 50 bytes; got 2", "truncated"});
}

BOOST_AUTO_TEST_CASE(the_header_is_checked) {
  refused(file_of("{"), {"the header is not JSON: error at byte"});
  refused(file_of("nonsense"), {"the header is not JSON: error at byte 2"});
  refused(file_of(" "), {"not JSON"});
  refused(file_of("[]"), {"header: expected an object of tensors; got an array"});
  refused(file_of("{} {}"), {"not JSON"});
  refused(file_of("{\"\xff\":1}"), {"not JSON"});
  refused(file_of(std::string(100'000, '[')), {"an array"});
  refused(file_of(R"({"a":)" + std::string(100'000, '[')),
          {"tensor `a`: expected an object with dtype, shape and data_offsets; got an array"});
  refused(file_of(R"({"__metadata__":{"a":1}})"), {"__metadata__: values: expected strings; got a number"});
  refused(file_of(R"({"__metadata__":{"a":"1","a":"2"}})"), {"__metadata__: a key is given twice"});
  refused(file_of(R"({"__metadata__":{},"__metadata__":{}})"), {"`__metadata__`: the header names it twice"});
  refused(file_of(R"({"__metadata__":[]})"), {"__metadata__: expected an object of strings; got an array"});
}

BOOST_AUTO_TEST_CASE(entries_are_checked) {
  auto one = [](const std::string& entry) { return file_of("{\"w\":" + entry + "}", eight); };
  refused(one("{}"), {"tensor `w`: dtype is missing"});
  refused(one(R"({"dtype":"F32"})"), {"tensor `w`: shape is missing"});
  refused(one(R"({"dtype":"F32","shape":[2]})"), {"tensor `w`: data_offsets is missing"});
  refused(one(R"({"dtype":7})"), {"tensor `w`: dtype: expected a string; got a number"});
  refused(one(R"({"dtype":"F32","dtype":"F32"})"), {"tensor `w`: dtype is given twice"});
  refused(one(R"({"dtype":"F32","extra":1})"), {"expected the keys dtype, shape and data_offsets; got `extra`"});
  refused(one(R"({"dtype":"F32","shape":[[2]]})"), {"expected only integers; got an array"});
  refused(one(R"({"dtype":"F32","shape":[-2]})"), {"shape: expected integers from 0 to 2^63 - 1; got -2"});
  refused(one(R"({"dtype":"F32","shape":[2.5]})"), {"shape: expected integers from 0 to 2^63 - 1; got 2.5"});
  refused(one(R"({"dtype":"F32","shape":[null]})"), {"got null"});
  refused(one(R"({"dtype":"F32","shape":[9223372036854775808]})"),
          {"shape: expected integers from 0 to 2^63 - 1; got 9223372036854775808"});
  refused(one(R"({"dtype":"F32","shape":[1,1,1,1,1,1,1,1,1]})"), {"shape has more than 8 numbers"});
  refused(one(R"({"dtype":"F6_E3M2","shape":[8],"data_offsets":[0,8]})"),
          {"tensor `w`: dtype: expected one of F32 F64", "got F6_E3M2"});
  refused(one(R"({"dtype":"F32","shape":[2],"data_offsets":[0]})"),
          {"data_offsets: expected begin and end; got 1 numbers"});
  refused(one(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8,9]})"), {"data_offsets has more than 2 numbers"});
  refused(one(R"({"dtype":"F32","shape":[2],"data_offsets":[8,0]})"),
          {"data_offsets: expected begin <= end; got 8..0"});
  refused(one(R"({"dtype":"F32","shape":[4],"data_offsets":[0,16]})"),
          {"data_offsets: expected offsets within the 8 bytes of data; got 0..16", "truncated"});
  refused(one(R"({"dtype":"F32","shape":[3],"data_offsets":[0,8]})"),
          {"data_offsets: expected 12 bytes for float32[3]; got 8, from 0..8"});
  refused(one(R"({"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8]})"),
          {"more elements than memory can hold"});
  refused(one(R"({"dtype":"F64","shape":[2305843009213693952],"data_offsets":[0,8]})"),
          {"more elements than memory can hold"});
  refused(one(R"({"dtype":"F32","shape":[0,4294967296,4294967296],"data_offsets":[0,0]})"),
          {"more elements than memory can hold"});
  refused(one(R"({"dtype":"U8","shape":[7],"data_offsets":[1,8]})"),
          {"data_offsets: expected to begin at 0", "got 1 (gap)"});
  refused(one(R"({"dtype":"U8","shape":[7],"data_offsets":[0,7]})"), {"data: expected 7 bytes for all tensors; got 8"});
  refused(file_of(R"({"w":{"dtype":"BOOL","shape":[2],"data_offsets":[0,2]}})", "\1\2"),
          {"BOOL: expected bytes 0 or 1; element 1 is 2"});
}

BOOST_AUTO_TEST_CASE(tensors_may_not_overlap_or_repeat) {
  refused(
      file_of(
          R"({"a":{"dtype":"U8","shape":[5],"data_offsets":[0,5]},"b":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}})",
          eight),
      {"tensor `b`", "data_offsets: expected to begin at 5", "got 4 (overlap)"});
  refused(
      file_of(
          R"({"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]},"b":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}})",
          eight),
      {"(overlap)"});
  refused(
      file_of(
          R"({"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]},"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}})",
          eight),
      {"tensor `a`: the header names it twice"});
}

BOOST_AUTO_TEST_CASE(names_are_made_printable) {
  BOOST_CHECK_EQUAL(printable("conv.weight"), "conv.weight");
  BOOST_CHECK_EQUAL(printable(""), "");
  BOOST_CHECK_EQUAL(printable("a\n\r\tb\x1b[31m\x7f"), "a\\n\\r\\tb\\x1b[31m\\x7f");
  BOOST_CHECK_EQUAL(printable(std::string_view("\0x", 2)), "\\x00x");
  BOOST_CHECK_EQUAL(printable("\xc3\xa4 \xc2\x9b \xe2\x82\xac"), "\xc3\xa4 \\xc2\\x9b \xe2\x82\xac");
  BOOST_CHECK_EQUAL(printable(std::string(100, 'a')), std::string(100, 'a'));
  BOOST_CHECK_EQUAL(printable(std::string(101, 'a')), std::string(100, 'a') + "... (101 bytes)");
  BOOST_CHECK_EQUAL(printable("\xc3\xa4\xc3\xa4", 3), "\xc3\xa4... (4 bytes)");
  BOOST_CHECK_EQUAL(printable("\xc3\xa4", 1), "... (2 bytes)");
}

BOOST_AUTO_TEST_CASE(an_error_is_one_short_line_whatever_a_file_calls_its_tensors) {
  test_files::folder dir;
  const std::string evil = R"(a\n\u001b[31m\u007f)" + std::string(5000, 'x'),
                    u8 = R"("shape":[8],"data_offsets":[0,8]})";
  for (const std::string& header :
       {R"({")" + evil + R"(":7})", R"({")" + evil + R"(":{"dtype":"U8",)" + u8 + R"(,")" + evil + R"(":{}})",
        R"({")" + evil + R"(":{"dtype":"U7",)" + u8 + "}",
        R"({")" + evil + R"(":{"dtype":"U8","shape":[9],"data_offsets":[0,9]}})",
        R"({")" + evil + R"(":{"dtype":"BOOL",)" + u8 + "}", R"({"w":{"dtype":")" + evil + "\"," + u8 + "}",
        R"({"w":{")" + evil + R"(":"U8"}})", R"({"w":{"dtype":"U8","shape":[-)" + std::string(5000, '1') + "]}}"}) {
    test_files::write_raw(dir / "evil", file_of(header, std::string(8, '\2')));
    BOOST_CHECK_EXCEPTION(read_safetensors(dir / "evil"), file_error, [&](const file_error& e) {
      const std::string_view what = e.what();
      bool good = what.size() < 400 && what.starts_with(dir / "evil");
      for (char c : what) good &= static_cast<unsigned char>(c) >= 0x20 && c != 0x7f;
      BOOST_TEST_MESSAGE(what);
      return good;
    });
  }
}

BOOST_AUTO_TEST_SUITE_END()
