// Tables: rows of tensors, arrays in files, CSV files.
#include <boost/test/unit_test.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "files.h"

import lamina;

#include "message.h"
#include "steady_state.h"

using namespace lamina;
using engine_test::message_of;

namespace {

template <class T> std::vector<T> elements(const any_tensor& t) {
  const auto all = t.elements<T>();
  return {all.begin(), all.end()};
}
csv_table table(std::string_view text, const csv_options& o = {}) { return datasets::csv_text(text, "t.csv", o); }
std::string failure(std::string_view text, const csv_options& o = {}) {
  return message_of([&] { table(text, o); });
}

constexpr std::string_view irises =
    "length,width,color,species\n5.1,3.5,red,setosa\n4.9,+3,\"blue, dark\",virginica\n 6e0 ,-1,red,setosa\n";

}  // namespace

BOOST_AUTO_TEST_SUITE(data_table)

BOOST_AUTO_TEST_CASE(rows_of_tensors_and_spans_are_samples) {
  const std::vector<std::int64_t> labels{3, 1, 2};
  const matrix<float> x{{1, 2}, {3, 4}, {5, 6}};
  const auto data = dataset::of_tensors(x, borrow(std::span(labels), {3}));
  BOOST_CHECK_EQUAL(data.size(), 3);
  const auto s = source_of(data);
  BOOST_CHECK(s.fields()[0] == (tensor_type{dtype::float32, {2}}));
  BOOST_CHECK(s.fields()[1] == (tensor_type{dtype::int64, {}}));
  BOOST_TEST(elements<float>(data[2].fields[0]) == (std::vector<float>{5, 6}), boost::test_tools::per_element());
  for (const auto& b : dataset::batches(data | dataset::skip(1), {.batch = 2})) {
    BOOST_TEST(elements<float>(b.tensor(0)) == (std::vector<float>{3, 4, 5, 6}), boost::test_tools::per_element());
    BOOST_TEST(elements<std::int64_t>(b.tensor(1)) == (std::vector<std::int64_t>{1, 2}),
               boost::test_tools::per_element());
  }
  BOOST_CHECK_EQUAL(message_of([&] { dataset::of_tensors(x, vector<float>(2)); }),
                    "tensor_rows: tensor 1 is float32[2]; expected 3 rows, as in the tensors before it");
  BOOST_CHECK_EQUAL(message_of([&] { static_cast<void>(data[3]); }), "tensor_rows: index 3 is outside 0..2");
}

BOOST_AUTO_TEST_CASE(arrays_come_from_files) {
  const test_files::folder dir;
  write_npy(dir / "x.npy", matrix<double>{{1, 2}, {3, 4}});
  BOOST_TEST(elements<double>(datasets::npy(dir / "x.npy")[1].fields[0]) == (std::vector<double>{3, 4}),
             boost::test_tools::per_element());
  const named_tensor two[] = {{"x", matrix<float>{{1}, {2}}}, {"y", vector<std::int64_t>{5, 6}}};
  write_npz(dir / "a.npz", two);
  write_safetensors(dir / "a.safetensors", two);
  const std::vector<std::string> names{"y", "x"};
  for (const auto& rows : {datasets::npz(dir / "a.npz", names), datasets::safetensors(dir / "a.safetensors", names)}) {
    BOOST_CHECK_EQUAL(elements<std::int64_t>(rows[1].fields[0])[0], 6);
    BOOST_CHECK_EQUAL(elements<float>(rows[1].fields[1])[0], 2);
  }
  BOOST_CHECK_EQUAL(datasets::npz(dir / "a.npz").columns().size(), 2u);
  BOOST_CHECK_EQUAL(message_of([&] { datasets::npz(dir / "a.npz", {"z"}); }),
                    (dir / "a.npz") + ": there is no tensor `z`; there are `x`, `y`");
}

BOOST_AUTO_TEST_CASE(kinds_of_columns_are_inferred) {
  const auto t = table(irises, {.targets = {"species"}});
  BOOST_REQUIRE_EQUAL(t.size(), 3);
  const auto s = source_of(t);
  BOOST_REQUIRE_EQUAL(s.fields().size(), 3u);
  BOOST_CHECK(s.fields()[0] == (tensor_type{dtype::float32, {2}}));
  BOOST_CHECK(s.fields()[1] == (tensor_type{dtype::int64, {1}}));
  BOOST_CHECK(s.fields()[2] == (tensor_type{dtype::int64, {}}));
  const auto columns = t.rows().columns();
  BOOST_TEST(elements<float>(columns[0]) == (std::vector<float>{5.1f, 3.5f, 4.9f, 3, 6, -1}),
             boost::test_tools::per_element());
  BOOST_TEST(elements<std::int64_t>(columns[1]) == (std::vector<std::int64_t>{0, 1, 0}),
             boost::test_tools::per_element());
  BOOST_TEST(elements<std::int64_t>(columns[2]) == (std::vector<std::int64_t>{0, 1, 0}),
             boost::test_tools::per_element());
  BOOST_CHECK_EQUAL(t.words().at("color")[1], "blue, dark");
  BOOST_CHECK_EQUAL(t.names(0)[1], "width");
  const auto test =
      table("length,width,color,species\n1,2,red,virginica\n", {.targets = {"species"}, .words = t.words()});
  BOOST_CHECK_EQUAL(elements<std::int64_t>(test.rows().columns()[2])[0], 1);
}

BOOST_AUTO_TEST_CASE(quotes_ends_of_lines_and_separators) {
  const auto t = table("\xef\xbb\xbf\"a \"\"b\"\"\";c\r\n\"x\r\ny\" ;1\r\n\r\n\"\"\"\";2", {.separator = ';'});
  BOOST_REQUIRE_EQUAL(t.size(), 2);
  BOOST_CHECK_EQUAL(t.names(1)[0], "a \"b\"");
  BOOST_CHECK_EQUAL(t.words().at("a \"b\"")[0], "x\r\ny");
  BOOST_CHECK_EQUAL(t.words().at("a \"b\"")[1], "\"");
  const auto plain = table("1,2\n3,4\n", {.targets = {"1"}, .header = false});
  BOOST_TEST(elements<float>(plain.rows().columns()[1]) == (std::vector<float>{2, 4}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(missing_values_go_by_rule) {
  constexpr std::string_view gaps = "a,b\n1,2\n,4\n3,NA\n";
  BOOST_CHECK_EQUAL(failure(gaps),
                    "t.csv:3: column `a`: the value is missing; {.missing = missing_rule::skip} skips such rows");
  const auto skipped = table(gaps, {.missing = missing_rule::skip});
  BOOST_CHECK_EQUAL(skipped.size(), 1);
  BOOST_CHECK_EQUAL(skipped.skipped(), 2);
  BOOST_TEST(elements<float>(table(gaps, {.missing = missing_rule::mean}).rows().columns()[0]) ==
                 (std::vector<float>{1, 2, 2, 4, 3, 3}),
             boost::test_tools::per_element());
  BOOST_TEST(
      elements<float>(table(gaps, {.missing = missing_rule::number, .missing_number = -1}).rows().columns()[0]) ==
          (std::vector<float>{1, 2, -1, 4, 3, -1}),
      boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(errors_name_file_line_and_column) {
  BOOST_CHECK_EQUAL(failure("a,b\n1,2\n\n1\n"), "t.csv:4: the row has 1 field; expected 2, as in the first row");
  BOOST_CHECK_EQUAL(failure("a,b\n1,2\n1,x\n", {.kinds = {{"b", column_kind::number}}}),
                    "t.csv:3: column `b`: `x` is not a number");
  BOOST_CHECK_EQUAL(failure("a\n1e300\n"), "t.csv:2: column `a`: `1e300` is not a finite float32");
  BOOST_CHECK_EQUAL(failure("a\n2\n3\n", {.targets = {"a"}, .kinds = {{"a", column_kind::integer}}, .classes = 3}),
                    "t.csv:3: column `a`: class 3 is outside 0..2");
  BOOST_CHECK_EQUAL(failure("a\n2.5\n", {.kinds = {{"a", column_kind::integer}}}),
                    "t.csv:2: column `a`: `2.5` is not a whole number");
  BOOST_CHECK_EQUAL(failure("a\nx\n", {.words = {{"a", {"y", "z"}}}}),
                    "t.csv:2: column `a`: `x` is not one of its words; there are `y`, `z`");
  BOOST_CHECK_EQUAL(failure("a\n\"x\ny\n"), "t.csv:2: the quote that begins a field is not closed");
  BOOST_CHECK_EQUAL(failure("a\n\"x\"y\n"),
                    "t.csv:2: expected a separator or the end of the line after a quoted field");
  BOOST_CHECK_EQUAL(failure("a,a\n1,2\n"), "t.csv:1: column `a`: the header has two columns of this name");
  BOOST_CHECK_EQUAL(failure("a\n"), "t.csv: it has no row after its header");
  BOOST_CHECK_EQUAL(failure(""), "t.csv: it has no row after its header");
  BOOST_CHECK_EQUAL(
      failure("speed\n1\n", {.targets = {"sped"}}),
      "t.csv: `targets` names a column `sped`, which does not exist; there are `speed`; did you mean `speed`?");
  const test_files::folder dir;
  BOOST_CHECK_THROW(datasets::csv(dir / "none.csv"), file_error);
  test_files::write_raw(dir / "t.csv", irises);
  BOOST_CHECK_EQUAL(datasets::csv(dir / "t.csv").size(), 3);
}

BOOST_AUTO_TEST_CASE(a_few_fields_that_are_no_numbers_make_no_words) {
  // The position of the field does not matter.
  for (const std::string_view text :
       {"a,b\n1,2\n1,3o\n1,4\n", "a,b\n1,3o\n1,2\n1,4\n", "a,b\n1,2\n1,NA\n1,3o\n1,4\n"}) {
    const std::string why = failure(text, {.missing = missing_rule::mean});
    BOOST_TEST(why.ends_with(": column `b`: `3o` is not a number; expected one, as in most rows, or {.kinds = {{\"b\", "
                             "column_kind::category}}}"),
               why);
    BOOST_TEST(why.starts_with("t.csv:"));
    const auto words = table(text, {.kinds = {{"b", column_kind::category}}, .missing = missing_rule::mean});
    BOOST_TEST(words.words().at("b").size() >= 3U);
    const auto rest = table(text, {.missing = missing_rule::mean, .on_error = sample_failure::skip});
    BOOST_CHECK_EQUAL(rest.skipped(), 1);
    BOOST_TEST(rest.left_out().at(0).starts_with("t.csv:"));
    BOOST_CHECK(source_of(rest).fields()[0] == (tensor_type{dtype::float32, {2}}));
  }
  // Exactly half are numbers: not a majority.
  BOOST_CHECK_EQUAL(table("b\n1\nx\n").words().at("b").size(), 2u);
  BOOST_CHECK_EQUAL(table("b\n7\nx\ny\n").words().at("b").size(), 3u);
}

BOOST_AUTO_TEST_CASE(a_table_is_read_like_another_one) {
  const auto train =
      table("x,color,n,kind\n1,red,2,a\n3,blue,,b\n5,red,6,a\n", {.targets = {"kind"}, .missing = missing_rule::mean});
  BOOST_CHECK_EQUAL(train.schema().columns.at(2).mean, 4);
  // Reordered columns, an additional column, missing numbers, reordered categories.
  const auto test = table("id,kind,n,color,x\n7,b,,blue,\n8,a,1,red,2\n", {.like = train});
  BOOST_REQUIRE_EQUAL(source_of(test).fields().size(), 3u);
  BOOST_TEST(elements<float>(test.rows().columns()[0]) == (std::vector<float>{3, 4, 2, 1}),
             boost::test_tools::per_element());
  BOOST_TEST(elements<std::int64_t>(test.rows().columns()[1]) == (std::vector<std::int64_t>{1, 0}),
             boost::test_tools::per_element());
  BOOST_TEST(elements<std::int64_t>(test.rows().columns()[2]) == (std::vector<std::int64_t>{1, 0}),
             boost::test_tools::per_element());
  BOOST_CHECK_EQUAL(test.location(1, 0, 1), "t.csv:3, column `n`");
  // For prediction: without the target.
  const auto open = table("x,color,n\n1,red,\n", {.like = train});
  BOOST_CHECK_EQUAL(source_of(open).fields().size(), 2u);
  BOOST_CHECK_EQUAL(elements<float>(open.rows().columns()[0])[1], 4);
  // A third table, like the second.
  BOOST_CHECK_EQUAL(elements<float>(table("x,color,n\n,red,1\n", {.like = open}).rows().columns()[0])[0], 3);
  // With another rule for missing values.
  BOOST_CHECK_EQUAL(table("x,color,n\n1,red,\n2,red,3\n", {.missing = missing_rule::skip, .like = train}).size(), 1);
  // Mismatches.
  const auto like = [&](std::string_view text) { return failure(text, {.like = train}); };
  BOOST_CHECK_EQUAL(
      like("x,colr,n\n1,red,2\n"),
      "t.csv: there is no column `color`, which the table of `like` has; there are `x`, `colr`, `n`; did you "
      "mean `colr`?");
  BOOST_CHECK_EQUAL(like("x,color,n\n1,green,2\n"),
                    "t.csv:2: column `color`: `green` is not one of its words; there are `red`, `blue`");
  BOOST_CHECK_EQUAL(like("x,color,n\n1,red,2\n1o,red,2\n"), "t.csv:3: column `x`: `1o` is not a number");
  BOOST_CHECK_EQUAL(failure("x\n1\n", {.targets = {"x"}, .like = train}),
                    "csv: `like` gives the targets, kinds, words and classes; expected no such option beside it");
  const auto two = table("x,u,v\n1,2,3\n", {.targets = {"u", "v"}});
  for (const std::string_view some : {"x,u\n1,2\n", "x,v\n1,2\n"}) BOOST_TEST(!failure(some, {.like = two}).empty());
  BOOST_CHECK_EQUAL(table("x\n1\n", {.like = two}).size(), 1);
  const auto unnamed = table("1,x\n2,y\n", {.header = false});
  BOOST_CHECK_EQUAL(elements<std::int64_t>(table("5,y\n", {.header = false, .like = unnamed}).rows().columns()[1])[0],
                    1);
}

BOOST_AUTO_TEST_CASE(rows_that_cannot_be_read_are_left_out_and_counted) {
  const csv_options o{.targets = {"kind"},
                      .kinds = {{"kind", column_kind::integer}},
                      .classes = 3,
                      .words = {{"color", {"red", "blue"}}},
                      .on_error = sample_failure::skip};
  const auto t =
      table("x,color,kind\n1,red,0\n1,red\n2,blue,1\n1,red,0,5\nq,red,0\n3,red,7\n4,green,0\n,red,0\n5,red,2\n", o);
  BOOST_CHECK_EQUAL(t.size(), 3);
  BOOST_CHECK_EQUAL(t.skipped(), 6);
  BOOST_TEST(elements<float>(t.rows().columns()[0]) == (std::vector<float>{1, 2, 5}), boost::test_tools::per_element());
  BOOST_CHECK_EQUAL(t.location(2), "t.csv:10");
  const std::vector<std::string> expected{
      "t.csv:3: the row has 2 fields; expected 3, as in the first row",
      "t.csv:5: the row has 4 fields; expected 3, as in the first row",
      "t.csv:6: column `x`: `q` is not a number; expected one, as in most rows, or {.kinds = {{\"x\", "
      "column_kind::category}}}",
      "t.csv:7: column `kind`: class 7 is outside 0..2",
      "t.csv:8: column `color`: `green` is not one of its words; there are `red`, `blue`",
      "t.csv:9: column `x`: the value is missing"};
  BOOST_TEST(t.left_out() == expected, boost::test_tools::per_element());
  BOOST_CHECK_EQUAL(
      failure("a,b\n1\n2\n", {.on_error = sample_failure::skip}),
      "t.csv: expected at least one valid row; got 2 skipped rows, the first: t.csv:2: the row has 1 field; "
      "expected 2, as in the first row");
  // Rows that are left out contribute no categories.
  const auto words = table("a,b\nx,1\ny,\nz,2\n", {.on_error = sample_failure::skip});
  BOOST_TEST(words.words().at("a") == (std::vector<std::string>{"x", "z"}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(rows_of_a_table_are_read_without_allocation) {
  if (!steady_state::observed) return;
  const auto source = source_of(table(irises, {.targets = {"species"}}));
  sample_batch b;
  b.read(source, {0, 1, 2});
  const auto counts = steady_state::count([&] { b.read(source, {2, 0}); });
  BOOST_CHECK_EQUAL(counts.allocations, 0);
}

BOOST_AUTO_TEST_CASE(files_in_folders_have_the_class_of_their_folder) {
  test_files::folder dir;
  const auto root = dir.path.string();
  for (const char* c : {"b", "a", ".git", "a/deep.txt"}) std::filesystem::create_directory(dir / c);
  for (const char* f : {"b/2.txt", "b/10.TXT", "a/x.md", "a/x.csv", "a/.x.txt", ".git/x.txt", "beside.txt"})
    test_files::write_raw(dir / f, "");
  const auto all = list_by_class(root, {".txt", ".md"});
  BOOST_TEST(all.class_names == (std::vector<std::string>{"a", "b"}), boost::test_tools::per_element());
  std::string found;
  for (const auto& [path, label] : all.files) found += path.substr(root.size()) + " " + std::to_string(label) + "; ";
  BOOST_TEST(found == "/a/x.md 0; /b/10.TXT 1; /b/2.txt 1; ");
  BOOST_TEST(message_of([&] { list_by_class(root, {".txt", ".png"}); }) ==
             root + "/a: the folder of a class has no file that ends in .txt or .png");
  BOOST_TEST(message_of([&] { list_by_class(root + "/a/deep.txt", {".txt"}); }) ==
             root + "/a/deep.txt: the folder has no subfolders; expected one per class, with files that end in .txt");
  BOOST_TEST(message_of([&] { list_by_class(root + "/beside.txt", {".txt"}); }) ==
             root + "/beside.txt: cannot be read: Not a directory");
}

BOOST_AUTO_TEST_SUITE_END()
