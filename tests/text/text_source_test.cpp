// Lines of files, windows of tokens, and folders of sounds.
#include <boost/test/unit_test.hpp>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "files.h"

import lamina;

using namespace lamina;
using test_files::says;

namespace {
std::vector<std::string> all_of(const line_dataset& d) {
  std::vector<std::string> s;
  for (std::int64_t i = 0; i < d.size(); ++i) s.push_back(d[i]);
  return s;
}
using strings = std::vector<std::string>;
}  // namespace

BOOST_AUTO_TEST_SUITE(text_sources)

BOOST_AUTO_TEST_CASE(a_file_is_read_by_lines) {
  test_files::folder dir;
  test_files::write_raw(dir / "a.txt",
                        "\xEF\xBB\xBF"
                        "one\r\n\n two\xC3\xA9\r\r\nthree");
  BOOST_TEST(all_of(datasets::lines(dir / "a.txt")) == (strings{"one", "", " two\xC3\xA9\r", "three"}),
             boost::test_tools::per_element());
  BOOST_TEST(all_of(datasets::lines(dir / "a.txt", {.skip_empty = true})).size() == 3);
  BOOST_TEST(datasets::lines_of("").size() == 0);
  BOOST_TEST(datasets::lines_of("\n").size() == 1);
  BOOST_TEST(datasets::lines_of("a\n").size() == 1);
  BOOST_TEST(datasets::lines_of("\xE2\x80\x83\t\nb\n", {.skip_empty = true}).size() == 1);
  const auto d = datasets::lines_of("a\nb");
  BOOST_CHECK_EXCEPTION(d[2], value_error, (says{{"index 2 is outside 0..1"}}));
  BOOST_CHECK_THROW(d[-1], value_error);
  BOOST_CHECK_THROW(datasets::lines("/no/such.txt"), file_error);
}

BOOST_AUTO_TEST_CASE(bytes_that_are_no_text_are_told_or_replaced) {
  test_files::folder dir;
  test_files::write_raw(dir / "a.txt",
                        "good\nba\xFF"
                        "d\n");
  BOOST_CHECK_EXCEPTION(datasets::lines(dir / "a.txt"), file_error,
                        (says{{"a.txt: line 2, byte 3 is not valid UTF-8"}}));
  BOOST_CHECK_EXCEPTION(datasets::lines_of("\x80"), file_error, (says{{"text: line 1, byte 1 "}}));
  BOOST_TEST(datasets::lines(dir / "a.txt", {.replace_invalid = true})[1] ==
             "ba\xEF\xBF\xBD"
             "d");
}

BOOST_AUTO_TEST_CASE(windows_are_followed_by_their_targets) {
  std::vector<std::int64_t> ids;
  for (std::int64_t i = 0; i < 11; ++i) ids.push_back(100 + i);
  for (std::int64_t length : {1, 3, 5, 10})
    for (std::int64_t stride : {0, 1, 2, 4}) {
      const auto d = datasets::token_windows(ids, length, stride);
      const std::int64_t by = stride ? stride : length;
      std::int64_t count = 0;
      for (std::int64_t first = 0; first + length < 11; first += by, ++count)
        for (std::int64_t k = 0; k < length; ++k) {
          const auto [inputs, targets] = d[count];
          BOOST_REQUIRE((inputs.size() == length && targets.size() == length));
          BOOST_REQUIRE((inputs(k) == 100 + first + k && targets(k) == 101 + first + k));
        }
      BOOST_TEST(d.size() == count);
    }
  BOOST_TEST(datasets::token_windows(ids, 11).size() == 0);
  BOOST_TEST(datasets::token_windows(std::vector<std::int64_t>{}, 1).size() == 0);
  BOOST_CHECK_THROW(datasets::token_windows(ids, 0), value_error);
  BOOST_CHECK_THROW(datasets::token_windows(ids, 3, -1), value_error);
  BOOST_CHECK_EXCEPTION(datasets::token_windows(ids, 3)[3], value_error, (says{{"index 3 is outside 0..2"}}));
}

BOOST_AUTO_TEST_CASE(a_folder_of_sounds_has_a_class_for_each_folder_in_it) {
  test_files::folder dir;
  const auto write = [&](const std::string& name, std::int64_t channels, std::int64_t frames, float value) {
    waveform w{matrix<float>(channels, frames), 8000};
    for (float& x : w.samples.writable()) x = value;
    std::filesystem::create_directories(std::filesystem::path(dir / name).parent_path());
    write_wav(dir / name, w, wav_format::float32);
  };
  write("yes/b.wav", 1, 100, 0.25f), write("yes/a.WAV", 2, 300, 0.5f), write("no/1.wav", 1, 50, 0.75f),
      write(".hidden/x.wav", 1, 5, 0);
  test_files::write_raw(dir / "yes/notes.txt", "no sound");
  test_files::write_raw(dir / "readme.txt", "no class");
  const auto plain = datasets::audio_folder(dir.path.string(), {.mono = false});
  BOOST_TEST(plain.class_names() == (strings{"no", "yes"}), boost::test_tools::per_element());
  BOOST_TEST((plain.size() == 3 && plain.label(0) == 0 && plain.label(1) == 1 && plain.file(1).ends_with("yes/a.WAV")));
  BOOST_TEST((plain[1].sound.channels() == 2 && plain[1].sound.frames() == 300 && plain[1].label == 1));
  const auto even = datasets::audio_folder(dir.path.string(), {.rate = 4000, .frames = 100});
  for (std::int64_t i = 0; i < 3; ++i) {
    const auto [sound, label] = even[i];
    BOOST_TEST((sound.channels() == 1 && sound.frames() == 100 && sound.rate == 4000));
  }
  BOOST_TEST(even[0].sound.samples(0, 99) == 0);
  BOOST_CHECK_CLOSE(even[1].sound.samples(0, 70), 0.5f, 0.1f);
  BOOST_CHECK_EXCEPTION(even[3], value_error, (says{{"index 3 is outside 0..2"}}));
  // A file damaged after listing is reported when it is read.
  test_files::write_raw(dir / "no/1.wav", "RIFF");
  BOOST_CHECK_EXCEPTION(even[0], file_error, (says{{"no/1.wav: RIFF: expected at least 12 bytes"}}));
  test_files::folder empty;
  BOOST_CHECK_EXCEPTION(datasets::audio_folder(empty.path.string()), file_error,
                        (says{{"the folder has no subfolders; expected one per class, with files that end in .wav"}}));
  BOOST_CHECK_EXCEPTION(datasets::audio_folder(empty / "none"), file_error, (says{{"none: cannot be read"}}));
  // A class without sounds is an error, whatever other files its folder contains.
  std::filesystem::create_directories(empty / "up/inner.wav");
  test_files::write_raw(empty / "up/.hidden.wav", "");
  BOOST_CHECK_EXCEPTION(datasets::audio_folder(empty.path.string()), file_error,
                        (says{{"/up: the folder of a class has no file that ends in .wav"}}));
  BOOST_CHECK_THROW(datasets::audio_folder(dir.path.string(), {.frames = -1}), value_error);
}

BOOST_AUTO_TEST_SUITE_END()
