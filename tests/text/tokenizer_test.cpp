// Tokenizers: against stored vectors of PyPI `tokenizers` (written by compare_tokenizers.py); training, batches, and
// damaged files.
#include <boost/test/unit_test.hpp>

#include <cstdint>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "files.h"

import lamina;

using namespace lamina;
using test_files::says;
using ids = std::vector<std::int64_t>;
using strings = std::vector<std::string>;

namespace {

std::string from_hex(const std::string& hex) {
  std::string s;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) s += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return s;
}
ids numbers(const std::string& s) {
  std::istringstream in(s);
  ids all;
  for (std::int64_t id = 0; in >> id;) all.push_back(id);
  return all;
}
strings split(const std::string& s, char at) {
  strings all(1);
  for (const char c : s)
    if (c == at) all.emplace_back();
    else all.back() += c;
  return all;
}
const std::string folder = TOKENIZERS;
constexpr encode_options replacing{.special = true, .on_invalid = invalid_utf8::replace};

// A document with a WordLevel model, with additional fields at its end.
std::string model_json(const std::string& fields = "", const std::string& vocab = R"("a":0,"b":1,"[UNK]":2)") {
  return R"({"model":{"type":"WordLevel","unk_token":"[UNK]","vocab":{)" + vocab +
         R"(}},"pre_tokenizer":{"type":"WhitespaceSplit"})" + fields + "}";
}
std::string pairs(const std::string& merges, const std::string& more = "") {
  return R"({"model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2,"abb":3},"merges":[)" + merges + "]" + more + "}}";
}

}  // namespace

BOOST_AUTO_TEST_SUITE(tokenizers)

BOOST_AUTO_TEST_CASE(ids_and_texts_are_those_of_the_stored_vectors) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".json") continue;
    ++files;
    BOOST_TEST_CONTEXT(entry.path().filename().string()) {
      const tokenizer read = load_tokenizer(entry.path().string());
      const strings lines =
          split(test_files::read_raw(std::filesystem::path(entry.path()).replace_extension(".vectors").string()), '\n');
      BOOST_REQUIRE_GT(lines.size(), 20U);
      // As read, and after writing and reading it again.
      for (const tokenizer& t : {read, read_tokenizer(read.to_json())}) {
        std::vector<strings> fields;
        for (const std::string& line : lines)
          if (!line.empty()) fields.push_back(split(line, '|'));
        for (std::size_t i = 0; i < fields.size(); ++i) {
          const std::string s = from_hex(fields[i][0]), next = from_hex(fields[(i + 1) % fields.size()][0]);
          const ids found = t.encode(s, replacing);
          BOOST_TEST(found == numbers(fields[i][1]), boost::test_tools::per_element());
          BOOST_TEST(t.encode(s, {.special = false, .on_invalid = invalid_utf8::replace}) == numbers(fields[i][2]),
                     boost::test_tools::per_element());
          BOOST_TEST(t.encode_pair(s, next, replacing) == numbers(fields[i][3]), boost::test_tools::per_element());
          BOOST_TEST(t.decode(found) == from_hex(fields[i][4]));
          BOOST_TEST(t.decode(found, false) == from_hex(fields[i][5]));
        }
      }
    }
  }
  BOOST_TEST(files == 9);
}

BOOST_AUTO_TEST_CASE(bytes_are_their_own_ids) {
  const auto t = byte_tokenizer({"<end>"});
  BOOST_TEST(t.size() == 257);
  BOOST_TEST(t.encode("hi <end>\xC3\xA9") == (ids{104, 105, 32, 256, 0xC3, 0xA9}), boost::test_tools::per_element());
  BOOST_TEST(t.decode(ids{104, 105, 256, 0xC3, 0xA9}) == "hi\xC3\xA9");
  BOOST_TEST(t.decode(ids{104, 256, -1, 257, std::int64_t(1) << 40}, false) == "h<end>");
  BOOST_TEST(t.encode<std::int32_t>("a") == (std::vector<std::int32_t>{97}), boost::test_tools::per_element());
  BOOST_CHECK_EXCEPTION(byte_tokenizer({"x"}), value_error, (says{{"byte_tokenizer", "`x`"}}));
}

BOOST_AUTO_TEST_CASE(of_equally_frequent_pairs_that_of_lower_ids_is_merged_first) {
  // Pairs of "abab" and "cdcd": ab twice, ba once, cd twice, dc once.
  const auto t = bpe::train(strings{"abab cdcd"},
                            {.size = 8, .special = {"<unk>"}, .split = word_split::whitespace, .unknown = "<unk>"});
  const std::string expected[] = {"<unk>", "a", "b", "c", "d", "ab", "cd", "abab"};
  BOOST_TEST(t.size() == 8);
  for (std::int64_t i = 0; i < 8; ++i) BOOST_TEST(t.token_of(i).value() == expected[i]);
  BOOST_TEST(t.encode("abab abcdcd x") == (ids{7, 5, 6, 6, 0}), boost::test_tools::per_element());
  BOOST_TEST(!t.token_of(8));
  BOOST_TEST(!t.id_of("dc"));
}

BOOST_AUTO_TEST_CASE(trained_vocabularies_give_texts_back) {
  const strings texts{"the cat sat on the mat", "The cats' hats \xC3\xA9t\xC3\xA9", "a flat mat  with\ttabs\n"};
  const auto bytes = bpe::train(texts, {.size = 300, .special = {"<s>"}});
  BOOST_TEST(bytes.size() > 257);
  for (const auto& s : texts) BOOST_TEST(bytes.decode(bytes.encode(s)) == s);
  BOOST_TEST(bytes.encode(texts[0]).size() < texts[0].size());
  const auto ends = bpe::train(texts, {.size = 60, .split = word_split::whitespace_only, .end_of_word = "</w>"});
  BOOST_TEST(ends.decode(ends.encode("the cats sat")) == "the cats sat");
  const auto pieces = wordpiece::train(texts, {.size = 60});
  BOOST_TEST(pieces.encode("the cat").front() == pieces.id_of("[CLS]").value());
  BOOST_TEST(pieces.encode("the cat").back() == pieces.id_of("[SEP]").value());
  BOOST_TEST(pieces.decode(pieces.encode("The  CATS sat")) == "the cats sat");
  BOOST_TEST(pieces.normalize("\xC3\x89t\xC3\xA9\t\x01") == "ete ");
  const auto whole = word_level::train(texts, {.size = 4});
  // `mat` and `the` occur two or three times, and `[UNK]` is first.
  BOOST_TEST(whole.token_of(1).value() == "the");
  BOOST_TEST(whole.encode("The dog") == (ids{1, 0}), boost::test_tools::per_element());
  BOOST_TEST((whole.split("It's  here") == strings{"it", "'", "s", "here"}));
}

BOOST_AUTO_TEST_CASE(training_refuses_options_that_contradict_each_other) {
  const strings texts{"a"};
  BOOST_CHECK_EXCEPTION(bpe::train(texts, {.size = 0}), value_error, (says{{"bpe::train", "size is 0"}}));
  BOOST_CHECK_EXCEPTION(bpe::train(texts, {.unknown = "?"}), value_error, (says{{"unknown is `?`"}}));
  BOOST_CHECK_EXCEPTION(bpe::train(texts, {.special = {"x", "x"}}), value_error, (says{{"`x` twice"}}));
  BOOST_CHECK_EXCEPTION(bpe::train(texts, {.end_of_word = "</w>"}), value_error, (says{{"end_of_word"}}));
  BOOST_CHECK_EXCEPTION(bpe::train(strings{"a", "b\xFF"}, {}), value_error, (says{{"byte 1 of text 1"}}));
}

BOOST_AUTO_TEST_CASE(what_is_no_utf8_is_refused_or_replaced) {
  const auto t = byte_tokenizer();
  for (const std::string bad : {"\x80", "\xC0\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xE2\x82"})
    BOOST_CHECK_EXCEPTION(t.encode("ab" + bad), value_error, (says{{"byte 2 of the text", "invalid_utf8::replace"}}));
  // One replacement character for each maximal subpart.
  BOOST_TEST(t.decode(t.encode("a\xE2\x82z\xED\xA0", replacing)) == "a\xEF\xBF\xBDz\xEF\xBF\xBD\xEF\xBF\xBD");
}

BOOST_AUTO_TEST_CASE(a_batch_is_filled_up_and_cut_off) {
  const auto t = read_tokenizer(model_json(
      R"(,"post_processor":{"type":"BertProcessing","sep":["b",1],"cls":["a",0]},"padding":{"strategy":"BatchLongest","pad_id":2},
         "truncation":{"max_length":5,"strategy":"LongestFirst","stride":0})"));
  const auto made = t.encode_batch(strings{"a", "b b b b b b"});
  BOOST_CHECK(made.ids.shape() == (shape{2, 5}));
  const auto list = [](const matrix<std::int64_t>& m) { return ids(m.data().begin(), m.data().end()); };
  BOOST_TEST(list(made.ids) == (ids{0, 0, 1, 2, 2, 0, 1, 1, 1, 1}), boost::test_tools::per_element());
  BOOST_TEST(list(made.mask) == (ids{1, 1, 1, 0, 0, 1, 1, 1, 1, 1}), boost::test_tools::per_element());
  BOOST_TEST(made.lengths == (ids{3, 5}), boost::test_tools::per_element());
  const strings first{"a b a b a b"}, second{"b b b"};
  auto pair = t.encode_batch(first, {.max_length = 8, .multiple = 6, .pad_id = 9, .pad_side = text_side::left}, second);
  BOOST_TEST(list(pair.ids) == (ids{9, 9, 9, 9, 0, 0, 1, 0, 1, 1, 1, 1}), boost::test_tools::per_element());
  BOOST_TEST(list(pair.types) == (ids{0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1}), boost::test_tools::per_element());
  pair = t.encode_batch(
      first, {.max_length = 8, .cut_side = text_side::left, .cut = cut_rule::only_first, .special = false}, second);
  BOOST_TEST(list(pair.ids) == (ids{1, 0, 1, 0, 1, 1, 1, 1}), boost::test_tools::per_element());
  BOOST_CHECK_EXCEPTION(
      t.encode_batch(first, {.max_length = 2, .cut = cut_rule::only_second, .special = false}, second), value_error,
      (says{{"row 0 has 7 tokens more than max_length"}}));
  BOOST_CHECK_EXCEPTION(t.encode_batch(first, {.length = 3}), value_error,
                        (says{{"text 0 has 8 tokens, but length is 3"}}));
  BOOST_CHECK_EXCEPTION(t.encode_batch(first, {.max_length = 1}), value_error,
                        (says{{"max_length is 1; expected at least 2, the number of special tokens"}}));
  BOOST_CHECK_EXCEPTION(t.encode_batch(first, {}, strings{"a", "b"}), value_error,
                        (says{{"1 texts and 2 second texts"}}));
  BOOST_CHECK_EXCEPTION(t.encode_batch(first, {.multiple = 0}), value_error, (says{{"multiple is 0"}}));
  BOOST_CHECK(t.encode_batch(strings{}).ids.shape() == (shape{0, 0}));
}

BOOST_AUTO_TEST_CASE(files_that_lie_are_refused_in_one_line) {
  struct hostile {
    std::string json, what;
  };
  const std::string deep(200000, '[');
  const hostile all[] = {
      {"", "not JSON"},
      {"[1,", "not JSON"},
      {deep, "nested deeper than"},
      {"[]", "the document is an array; expected an object"},
      {"{}", "`model` is missing"},
      {R"({"model":{"type":"WordLevel"}})", "`model.vocab` is missing; expected an object"},
      {model_json("", R"("a":0,"b":0)"), "`model.vocab` has two tokens with the id 0"},
      {model_json("", R"("a":0,"a":1)"), "two members `a`"},
      {model_json("", R"("a":-1)"), "`model.vocab.a` is -1; expected 0 to 2147483647"},
      {model_json("", R"("a":4294967296)"), "`model.vocab.a` is 4294967296"},
      {model_json("", R"("a":1e3)"), "`model.vocab.a` is a number; expected an integer"},
      {model_json("", "\"a\":99999999999999999999"), "`model.vocab.a`"},
      {pairs(R"("a")"), "`model.merges[0]` is `a`; expected two tokens and one space"},
      {pairs(R"("a b","a c")"), "`model.merges[1]` names `c`; expected a token of `vocab`"},
      {pairs(R"(["a","b"],["ab","a"])"), "`model.merges[1]` makes `aba`; expected a token of `vocab`"},
      {pairs(R"(["a","b","b"])"), "`model.merges[0]` is not a pair"},
      {pairs("7"), "`model.merges[0]` is not a pair"},
      {pairs(R"("a b")", R"(,"continuing_subword_prefix":"#####")"), "shorter than `continuing_subword_prefix`"},
      {model_json(R"(,"added_tokens":[{"id":0,"content":"c"}])"), "`added_tokens[0].id` is 0, the id of `a`"},
      {model_json(R"(,"added_tokens":[{"id":7,"content":"a"}])"),
       "`added_tokens[0].id` is 7; expected 0, the id of `a` in `model.vocab`"},
      {model_json(R"(,"added_tokens":[{"id":7,"content":""}])"), "`added_tokens[0].content` is empty"},
      {model_json(R"(,"added_tokens":[{"id":7,"content":"x"},{"id":7,"content":"y"}])"),
       "`added_tokens[1].id` is 7; an earlier token has this id"},
      {model_json(R"(,"added_tokens":[{"id":7,"content":"x"},{"id":8,"content":"x"}])"),
       "`added_tokens[1].content` is `x`"},
      {model_json(R"(,"post_processor":{"type":"BertProcessing","sep":["x",77],"cls":["a",0]})"),
       "`post_processor.sep[1]` is 77"},
      {model_json(R"(,"post_processor":{"type":"BertProcessing","sep":["b",0],"cls":["a",0]})"),
       "`post_processor.sep[1]` is 0; expected the id of `b`"},
      {model_json(
           R"(,"post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"x","type_id":0}}],"pair":[],"special_tokens":{}})"),
       "`post_processor.single[0].SpecialToken.id` is `x`"},
      {model_json(R"(,"decoder":{"type":"Strip","content":" ","start":99999999,"stop":0})"),
       "`decoder.start` is 99999999"},
      {model_json(R"(,"normalizer":{"type":"Replace","pattern":{"String":""},"content":"x"})"),
       "`normalizer.pattern.String` is empty"},
      {model_json(R"(,"padding":{"strategy":{"Fixed":-1}})"), "`padding.strategy.Fixed` is -1"},
      {model_json(R"(,"truncation":{"max_length":0})"), "`truncation.max_length` is 0"},
  };
  for (const auto& h : all) BOOST_TEST_CONTEXT(h.json.substr(0, 120)) {
      try {
        read_tokenizer(h.json, "some.json");
        BOOST_ERROR("was read");
      } catch (const file_error& e) {
        const std::string found = e.what();
        BOOST_TEST(found.starts_with("some.json: "));
        BOOST_TEST(found.find(h.what) != std::string::npos, found);
        BOOST_TEST(found.find('\n') == std::string::npos);
      }
    }
  std::string many;
  for (int i = 0; i < 100; ++i) many += std::string(i ? "," : "") + R"({"type":"NFC"})";
  BOOST_CHECK_EXCEPTION(read_tokenizer(model_json(R"(,"normalizer":{"type":"Sequence","normalizers":[)" + many + "]}")),
                        file_error, (says{{"`normalizer.normalizers[64]`", "at most 64"}}));
  const test_files::folder dir;
  BOOST_CHECK_EXCEPTION(load_tokenizer(dir / "none.json"), file_error, (says{{"none.json", "cannot be read"}}));
}

BOOST_AUTO_TEST_CASE(parts_that_are_missing_here_are_named) {
  const auto unsupported = [](const std::string& json, const std::string& what) {
    BOOST_CHECK_EXCEPTION(read_tokenizer(json), unsupported_error, (says{{what}}));
  };
  unsupported(R"({"model":{"type":"Unigram","vocab":[["a",0.5]]}})", "`model.type` is Unigram");
  unsupported(model_json(R"(,"normalizer":{"type":"Precompiled"})"), "`normalizer.type` is `Precompiled`");
  unsupported(model_json(R"(,"normalizer":{"type":"Replace","pattern":{"Regex":"a+"},"content":"x"})"),
              "regular expression `a+`");
  unsupported(model_json(R"(,"decoder":{"type":"CTC"})"), "`decoder.type` is `CTC`");
  unsupported(model_json(R"(,"version":"2.0")"), "`version` is `2.0`");
  unsupported(pairs(R"("a b")", R"(,"dropout":0.5)"), "`model.dropout` is 0.5");
}

BOOST_AUTO_TEST_CASE(a_replacement_that_explodes_is_an_error) {
  const std::string step = R"({"type":"Replace","pattern":{"String":"a"},"content":")" + std::string(4096, 'a') + "\"}";
  const std::string steps = step + "," + step + "," + step;
  const auto t = read_tokenizer(model_json(R"(,"normalizer":{"type":"Sequence","normalizers":[)" + steps + "]}"));
  BOOST_CHECK_EXCEPTION(t.encode("a"), value_error, (says{{"a replacement makes more than"}}));
}

BOOST_AUTO_TEST_CASE(long_words_are_merged_as_short_ones) {
  const auto t = read_tokenizer(pairs(R"("a b","ab b")"));
  std::string word;
  ids expected;
  for (int i = 0; i < 500; ++i) {
    word += i % 3 ? "abb" : "ba";
    for (const std::int64_t id : i % 3 ? ids{3} : ids{1, 0}) expected.push_back(id);
  }
  // The `a` of `ba` before `abb` is not merged, nor at the end of a word.
  BOOST_TEST(t.encode(word) == expected, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(saved_tokenizers_are_read_back) {
  const test_files::folder dir;
  const auto t = wordpiece::train(strings{"one two three", "two three"}, {.size = 40});
  t.save(dir / "tokenizer.json");
  const auto again = load_tokenizer(dir / "tokenizer.json");
  BOOST_TEST(again.to_json() == t.to_json());
  BOOST_TEST(again.encode("three one [MASK]") == t.encode("three one [MASK]"), boost::test_tools::per_element());
  BOOST_TEST(again.added().size() == 5U);
}

BOOST_AUTO_TEST_SUITE_END()
