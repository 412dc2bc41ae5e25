// Sound: valid and damaged WAV files, resampling, random augmentations, and spectra against vectors of NumPy.
#include <boost/test/unit_test.hpp>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "files.h"

import lamina;

#include "graph.h"

#include "gradient_check.h"

using namespace lamina;
using test_files::says;

namespace {

std::string little(std::uint64_t v, int bytes) {
  std::string s;
  for (int i = 0; i < bytes; ++i) s += static_cast<char>(v >> (8 * i) & 255);
  return s;
}
std::string chunk(const std::string& name, const std::string& content) {
  return name + little(content.size(), 4) + content + std::string(content.size() % 2, '\0');
}
std::string riff(const std::string& chunks) { return "RIFF" + little(4 + chunks.size(), 4) + "WAVE" + chunks; }
std::string format(int coding, int channels, int rate, int bits) {
  const int frame = channels * bits / 8;
  return little(static_cast<unsigned>(coding), 2) + little(static_cast<unsigned>(channels), 2) +
         little(static_cast<unsigned>(rate), 4) + little(static_cast<unsigned>(rate * frame), 4) +
         little(static_cast<unsigned>(frame), 2) + little(static_cast<unsigned>(bits), 2);
}
waveform decoded(const std::string& s, frame_range range = {}) {
  return decode_wav({reinterpret_cast<const std::byte*>(s.data()), s.size()}, "a.wav", range);
}
// Expects the same error for the bytes in memory and in a file.
template <class E> void refused(const std::string& s, std::string_view part) {
  BOOST_CHECK_EXCEPTION(decoded(s), E, (says{{"a.wav: ", part}}));
  test_files::folder dir;
  test_files::write_raw(dir / "b.wav", s);
  BOOST_CHECK_EXCEPTION(read_wav(dir / "b.wav"), E, (says{{"b.wav: ", part}}));
}
waveform made(std::int64_t channels, std::int64_t frames, std::int64_t rate) {
  waveform w{matrix<float>(channels, frames), rate};
  auto out = w.samples.writable();
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = static_cast<float>(std::sin(0.37 * static_cast<double>(i)) * 0.9);
  return w;
}
bool same(const matrix<float>& a, const matrix<float>& b) {
  return a.shape() == b.shape() &&
         std::memcmp(a.data().data(), b.data().data(), static_cast<std::size_t>(a.size()) * 4) == 0;
}

const any_tensor& stored(std::string_view name) {
  static const auto all = read_npz(LAMINA_AUDIO_VECTORS);
  for (const auto& v : all)
    if (v.name == name) return v.value;
  throw std::runtime_error("no vector " + std::string(name));
}
double distance(const matrix<float>& a, const any_tensor& b) {
  BOOST_REQUIRE(a.shape() == b.shape());
  double max = 0, largest = 0;
  for (std::size_t i = 0; i < a.data().size(); ++i) {
    const double x =
        b.element() == dtype::float64 ? b.elements<double>()[i] : static_cast<double>(b.elements<float>()[i]);
    max = std::max(max, std::abs(static_cast<double>(a.data()[i]) - x));
    largest = std::max(largest, std::abs(x));
  }
  return max / std::max(largest, 1e-12);
}
waveform stored_signal(std::int64_t frames = 1200) {
  const auto s = stored("signal").elements<float>();
  waveform w{matrix<float>(1, frames), 8000};
  auto out = w.samples.writable();
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = s[i];
  return w;
}
const spectrogram_options frames_256{.length = 256, .window = 200, .step = 80};

}  // namespace

BOOST_AUTO_TEST_SUITE(audio)

BOOST_AUTO_TEST_CASE(waveforms_survive_every_format) {
  test_files::folder dir;
  const double steps[] = {0x1p-7, 0x1p-15, 0x1p-23, 0x1p-25, 0, 0};
  for (int f = 0; f < 6; ++f)
    for (std::int64_t channels : {1, 2, 3, 7})
      for (std::int64_t frames : {0, 1, 333, 70000}) {
        const waveform w = made(channels, frames, 22050);
        write_wav(dir / "a.wav", w, static_cast<wav_format>(f));
        const wav_info info = inspect_wav(dir / "a.wav");
        BOOST_TEST((info.format == static_cast<wav_format>(f) && info.channels == channels && info.frames == frames));
        const waveform back = read_wav(dir / "a.wav");
        BOOST_TEST((back.rate == 22050 && back.samples.shape() == w.samples.shape()));
        double max = 0;
        for (std::size_t i = 0; i < w.samples.data().size(); ++i)
          max = std::max(max, std::abs(static_cast<double>(back.samples.data()[i] - w.samples.data()[i])));
        BOOST_TEST(max <= steps[f] / 2);
        if (frames < 333) continue;
        const waveform part = read_wav(dir / "a.wav", {.first = 300, .count = 20});
        for (std::int64_t c = 0; c < channels; ++c)
          for (std::int64_t i = 0; i < 20; ++i) BOOST_REQUIRE_EQUAL(part.samples(c, i), back.samples(c, 300 + i));
      }
}

BOOST_AUTO_TEST_CASE(samples_have_the_values_of_their_bytes) {
  const std::string pcm8("\0\x80\xff", 3), pcm16("\0\x80\xff\x7f\1\0", 6), pcm24("\0\0\x80\xff\xff\x7f", 6);
  auto w = decoded(riff(chunk("fmt ", format(1, 1, 8000, 8)) + chunk("data", pcm8)));
  BOOST_TEST((w.samples(0, 0) == -1 && w.samples(0, 1) == 0 && w.samples(0, 2) == 127 / 128.f));
  w = decoded(riff(chunk("fmt ", format(1, 1, 8000, 16)) + chunk("data", pcm16)));
  BOOST_TEST((w.samples(0, 0) == -1 && w.samples(0, 1) == 32767 / 32768.f && w.samples(0, 2) == 1 / 32768.f));
  w = decoded(riff(chunk("fmt ", format(1, 1, 8000, 24)) + chunk("data", pcm24)));
  BOOST_TEST((w.samples(0, 0) == -1 && w.samples(0, 1) == 8388607 / 8388608.f));
  w = decoded(
      riff(chunk("fmt ", format(3, 2, 8000, 64)) + chunk("data", little(std::bit_cast<std::uint64_t>(0.25), 8) +
                                                                     little(std::bit_cast<std::uint64_t>(-3.), 8))));
  BOOST_TEST((w.samples(0, 0) == 0.25f && w.samples(1, 0) == -3));
  // Samples beyond -1 to 1 are clipped.
  test_files::folder dir;
  waveform loud{matrix<float>{{2, -2, 0.5f}}, 8000};
  write_wav(dir / "a.wav", loud);
  w = read_wav(dir / "a.wav");
  BOOST_TEST((w.samples(0, 0) == 32767 / 32768.f && w.samples(0, 1) == -1 && w.samples(0, 2) == 0.5f));
}

BOOST_AUTO_TEST_CASE(chunks_come_in_any_order_and_of_any_size) {
  const std::string data("\1\0\2\0", 4), fmt = chunk("fmt ", format(1, 1, 8000, 16));
  for (const std::string& s :
       {chunk("LIST", "odd") + fmt + chunk("fact", "1234") + chunk("data", data),
        chunk("data", data) + chunk("junk", "") + fmt, fmt + chunk("data", data) + chunk("end ", "x")}) {
    const auto w = decoded(riff(s));
    BOOST_TEST((w.frames() == 2 && w.samples(0, 1) == 2 / 32768.f));
  }
  // The last chunk's padding byte may be missing, and data may follow the RIFF.
  auto odd = chunk("fmt ", format(1, 1, 8000, 8)) + chunk("data", "123");
  odd.pop_back();
  BOOST_TEST(decoded(riff(odd)).frames() == 3);
  BOOST_TEST(decoded(riff(odd) + "more").frames() == 3);
  // WAVE_FORMAT_EXTENSIBLE with 20 valid bits in 24.
  const std::string guid("\1\0\0\0\0\0\x10\0\x80\0\0\xaa\0\x38\x9b\x71", 16);
  const auto extensible = [&](int valid, const std::string& id) {
    return riff(chunk("fmt ", format(0xFFFE, 2, 48000, 24) + little(22, 2) + little(static_cast<unsigned>(valid), 2) +
                                  little(3, 4) + id) +
                chunk("data", std::string(12, '\0')));
  };
  BOOST_TEST(decoded(extensible(20, guid)).frames() == 2);
  refused<file_error>(extensible(25, guid), "fmt: expected at most 24 valid bits per sample; got 25");
  refused<unsupported_error>(extensible(24, std::string(16, '\1')), "fmt: coding 65534 of 24 bits is not supported");
}

BOOST_AUTO_TEST_CASE(damaged_files_are_refused_by_their_field) {
  const std::string data("\1\0\2\0", 4), fmt = chunk("fmt ", format(1, 1, 8000, 16)),
                                         whole = riff(fmt + chunk("data", data));
  refused<file_error>("", "RIFF: expected at least 12 bytes; got 0");
  refused<file_error>("RIFX" + whole.substr(4), "RIFF: expected RIFF and WAVE at the beginning");
  refused<file_error>(whole.substr(0, whole.size() - 1), "RIFF: expected a size of 4 to 39; got 40");
  refused<file_error>("RIFF" + little(0xFFFFFFFF, 4) + whole.substr(8),
                      "RIFF: expected a size of 4 to 40; got 4294967295");
  refused<file_error>("RIFF" + little(0, 4) + whole.substr(8), "RIFF: expected a size of 4 to 40; got 0");
  refused<file_error>(riff(fmt), "data: it is missing");
  refused<file_error>(riff(chunk("data", data)), "fmt: it is missing");
  refused<file_error>(riff(fmt + fmt + chunk("data", data)), "fmt: appears twice");
  refused<file_error>(riff(fmt + chunk("data", data) + chunk("data", data)), "data: appears twice");
  refused<file_error>(
      riff(fmt + "data" + little(1 << 30, 4) + data),
      "the chunk `data` at byte 36: expected at most 4 bytes before the end of the RIFF data; got 1073741824");
  refused<file_error>(riff(fmt + "dat"), "the chunk at byte 36: expected 8 bytes of name and size; got 3");
  refused<file_error>(riff(chunk("fmt ", format(1, 1, 8000, 16).substr(0, 14)) + chunk("data", data)),
                      "fmt: expected at least 16 bytes");
  refused<file_error>(riff(chunk("fmt ", format(1, 0, 8000, 16)) + chunk("data", data)),
                      "fmt: expected at least one channel");
  refused<file_error>(riff(chunk("fmt ", format(1, 1, 0, 16)) + chunk("data", data)),
                      "fmt: expected a rate of at least 1");
  refused<file_error>(riff(chunk("fmt ", format(1, 3, 8000, 16)) + chunk("data", data)),
                      "data: expected a multiple of 6 bytes, the size of a frame; got 4");
  refused<unsupported_error>(riff(chunk("fmt ", format(1, 1, 8000, 12)) + chunk("data", data)),
                             "coding 1 of 12 bits is not supported");
  refused<unsupported_error>(riff(chunk("fmt ", format(6, 1, 8000, 8)) + chunk("data", data)), "coding 6 of 8 bits");
  std::string lies = format(1, 2, 8000, 16);
  lies[12] = 2;
  refused<file_error>(riff(chunk("fmt ", lies) + chunk("data", data)), "fmt: expected frames of 4 bytes");
  refused<file_error>(riff(chunk("fmt ", format(0xFFFE, 1, 8000, 16)) + chunk("data", data)),
                      "fmt: expected at least 40 bytes for an extensible format");
  // Every shorter file is refused, and changed bytes never cause reads out of bounds.
  for (std::size_t n = 0; n < whole.size(); ++n) BOOST_CHECK_THROW(decoded(whole.substr(0, n)), file_error);
  BOOST_CHECK_EXCEPTION(decoded(whole, {.first = 1, .count = 2}), value_error,
                        (says{{"frames 1 to 3 are requested, but there are 2"}}));
  BOOST_CHECK_THROW(decoded(whole, {.first = 3}), value_error);
  BOOST_CHECK_THROW(read_wav("/no/such.wav"), file_error);
}

BOOST_AUTO_TEST_CASE(each_field_of_a_header_that_lies_is_named) {
  const auto field = [](std::size_t at, std::uint64_t v, std::size_t bytes) {  // in a header of 44 bytes, with 8 frames
    std::string s = riff(chunk("fmt ", format(1, 1, 8000, 16)) +
                         chunk("data", std::string("\x80\0\x90\0\xa0\0\xb0\0\xc0\0\xd0\0\xe0\0\xf0\0", 16)));
    return s.replace(at, bytes, little(v, static_cast<int>(bytes)));
  };
  BOOST_TEST(decoded(field(4, 52, 4)).frames() == 8);
  // The RIFF size: too large and too small.
  refused<file_error>(field(4, 53, 4), "RIFF: expected a size of 4 to 52; got 53");
  refused<file_error>(field(4, 36, 4),
                      "the chunk `data` at byte 36: expected at most 0 bytes before the end of the RIFF data; got 16");
  refused<file_error>(field(4, 51, 4),
                      "the chunk `data` at byte 36: expected at most 15 bytes before the end of the RIFF data; got 16");
  // The format.
  refused<file_error>(field(16, 14, 4), "fmt: expected at least 16 bytes");
  refused<file_error>(
      field(16, 200, 4),
      "the chunk `fmt ` at byte 12: expected at most 40 bytes before the end of the RIFF data; got 200");
  refused<unsupported_error>(field(20, 3, 2), "fmt: coding 3 of 16 bits is not supported");
  refused<file_error>(field(22, 2, 2), "fmt: expected frames of 4 bytes for 2 channels of 16 bits; got 2");
  refused<file_error>(field(24, 16000, 4),
                      "fmt: expected 32000 bytes a second for a rate of 16000 and frames of 2 "
                      "bytes; got 16000");
  refused<file_error>(field(28, 7, 4),
                      "fmt: expected 16000 bytes a second for a rate of 8000 and frames of 2 bytes; got 7");
  refused<file_error>(field(32, 4, 2), "fmt: expected frames of 2 bytes for 1 channels of 16 bits; got 4");
  refused<file_error>(field(34, 8, 2), "fmt: expected frames of 1 bytes for 1 channels of 8 bits; got 2");
  // The size of the samples: too large and too small, also with a matching RIFF size.
  refused<file_error>(field(40, 18, 4),
                      "the chunk `data` at byte 36: expected at most 16 bytes before the end of the RIFF data; got 18");
  refused<file_error>(field(40, 8, 4), "data: expected a chunk at byte 52, after its size of 8; got other bytes");
  refused<file_error>(field(40, 7, 4), "data: expected a chunk at byte 52, after its size of 7; got other bytes");
  refused<file_error>(field(40, 0, 4).replace(4, 4, little(36, 4)),
                      "RIFF: expected a chunk or the end of the file after its size of 36; got 16 other bytes");
  refused<file_error>(field(40, 8, 4).replace(4, 4, little(44, 4)),
                      "RIFF: expected a chunk or the end of the file after its size of 44; got 8 other bytes");
  // Zeros after the samples are not chunks.
  refused<file_error>(riff(chunk("fmt ", format(1, 1, 8000, 16)) + chunk("data", "") + std::string(16, '\0')),
                      "data: expected a chunk at byte 44, after its size of 0; got other bytes");
  // Tags after the RIFF are not samples.
  for (const std::string& tag : {std::string("ID3\4\0\0", 6), std::string("TAGtitle"), chunk("LIST", "INFO")})
    BOOST_TEST(decoded(field(4, 52, 4) + tag).frames() == 8);
}

BOOST_AUTO_TEST_CASE(what_no_wav_file_holds_is_not_written) {
  test_files::folder dir;
  const auto write = [&](const waveform& w) { write_wav(dir / "a.wav", w); };
  BOOST_CHECK_EXCEPTION(write({matrix<float>(0, 4), 8000}), value_error, (says{{"0 channels; expected 1 to 32767"}}));
  BOOST_CHECK_EXCEPTION(write({matrix<float>(1, 4), 0}), value_error, (says{{"a rate of 0"}}));
  BOOST_CHECK_EXCEPTION(write({matrix<float>{{1, std::nanf("")}}, 8000}), value_error,
                        (says{{"sample 1 is not finite"}}));
  BOOST_TEST(dir.count() == 0);
}

BOOST_AUTO_TEST_CASE(rates_change_as_the_formula_says) {
  const waveform w = stored_signal(400);
  const auto row = [](const any_tensor& t) { return any_tensor(t.memory(), {t.element(), {1, t.shape()[0]}}); };
  BOOST_TEST(distance(resample(w, 11025).samples, row(stored("up"))) < 1e-6);
  BOOST_TEST(distance(resample(w, 3000).samples, row(stored("down"))) < 1e-6);
  // A tone in the passband stays, a tone above it is removed, and channels are independent.
  for (std::int64_t to : {16000, 44101, 7919}) {
    waveform tone{matrix<float>(2, 4000), 22050};
    auto x = tone.samples.writable();
    for (std::size_t i = 0; i < 4000; ++i) {
      x[i] = static_cast<float>(std::sin(2 * 3.14159265358979 * 1000 * static_cast<double>(i) / 22050));
      x[4000 + i] = static_cast<float>(std::sin(2 * 3.14159265358979 * 10000 * static_cast<double>(i) / 22050));
    }
    const waveform y = resample(tone, to);
    BOOST_TEST(y.frames() == (4000 * to + 22049) / 22050);
    double max = 0, above = 0;
    for (std::int64_t i = y.frames() / 4; i < y.frames() * 3 / 4; ++i) {
      const double want = std::sin(2 * 3.14159265358979 * 1000 * static_cast<double>(i) / static_cast<double>(to));
      max = std::max(max, std::abs(static_cast<double>(y.samples(0, i)) - want));
      above = std::max(above, std::abs(static_cast<double>(y.samples(1, i))));
    }
    BOOST_TEST(max < 1e-3);
    if (to < 20000) BOOST_TEST(above < 1e-3);
  }
  BOOST_CHECK_THROW(resample(w, 0), value_error);
  BOOST_CHECK_THROW(resample(w, 16000, {.zero_crossings = 0}), value_error);
  BOOST_CHECK_THROW(resample(w, 16000, {.rolloff = 1.5}), value_error);
  const waveform mono = to_mono(made(2, 3, 8000));
  BOOST_TEST((mono.channels() == 1 && mono.frames() == 3));
  BOOST_TEST(mono.samples(0, 1) == (made(2, 3, 8000).samples(0, 1) + made(2, 3, 8000).samples(1, 1)) / 2);
  BOOST_CHECK_THROW(to_mono(made(0, 3, 8000)), shape_error);
}

BOOST_AUTO_TEST_CASE(changes_depend_on_seed_and_number_alone) {
  const waveform w = made(2, 1000, 8000);
  const auto differ = [&](const auto& f) {
    BOOST_TEST(same(f(random_state{1, 5}), f(random_state{1, 5})));
    BOOST_TEST(!same(f(random_state{1, 5}), f(random_state{2, 5})));
    BOOST_TEST(!same(f(random_state{1, 5}), f(random_state{1, 6})));
  };
  differ([&](random_state at) { return add_noise(w, {}, at).samples; });
  differ([&](random_state at) { return random_gain(w, {}, at).samples; });
  differ([&](random_state at) { return time_shift(w, {.max = 500}, at).samples; });
  const waveform noisy = add_noise(w, {.low = 0.1, .high = 0.1}, {1, 1});
  double sum = 0, squares = 0;
  for (std::size_t i = 0; i < 2000; ++i) {
    const double d = static_cast<double>(noisy.samples.data()[i] - w.samples.data()[i]);
    sum += d, squares += d * d;
  }
  BOOST_TEST(std::abs(sum / 2000) < 0.01);
  BOOST_TEST(std::abs(std::sqrt(squares / 2000) - 0.1) < 0.01);
  const waveform louder = random_gain(w, {.low = 20, .high = 20}, {1, 1});
  BOOST_CHECK_CLOSE(louder.samples(0, 3), w.samples(0, 3) * 10, 1e-4);
  // A shift moves all channels by the same distance and fills with zeros.
  bool earlier = false, later = false;
  for (std::int64_t k = 0; k < 20; ++k) {
    const waveform s = time_shift(w, {.max = 300}, {1, k});
    std::int64_t by = -301;
    for (std::int64_t d = -300; d <= 300 && by < -300; ++d) {
      bool all = true;
      for (std::int64_t c = 0; c < 2; ++c)
        for (std::int64_t i = 0; i < 1000; ++i)
          all = all && s.samples(c, i) == (i - d >= 0 && i - d < 1000 ? w.samples(c, i - d) : 0);
      if (all) by = d;
    }
    BOOST_TEST(by >= -300);
    earlier = earlier || by < 0, later = later || by > 0;
  }
  BOOST_TEST((earlier && later));
  BOOST_CHECK_THROW(add_noise(w, {.low = 1, .high = 0}, {1, 1}), value_error);
  BOOST_CHECK_THROW(random_gain(w, {.low = 1, .high = 0}, {1, 1}), value_error);
  BOOST_CHECK_THROW(time_shift(w, {.max = -1}, {1, 1}), value_error);
}

BOOST_AUTO_TEST_CASE(masks_are_stripes) {
  matrix<float> ones(30, 20);
  for (float& x : ones.writable()) x = 1;
  bool any = false;
  for (std::int64_t k = 0; k < 50; ++k) {
    const auto t = time_mask(ones, {.count = 2, .max = 6, .value = -7}, {3, k}),
               f = frequency_mask(ones, {.count = 1, .max = 40}, {3, k});
    int rows = 0, columns = 0;
    for (std::int64_t r = 0; r < 30; ++r) {
      rows += t(r, 0) == -7;
      for (std::int64_t c = 0; c < 20; ++c) {
        BOOST_REQUIRE((t(r, c) == t(r, 0) && (t(r, c) == 1 || t(r, c) == -7)));
        BOOST_REQUIRE((f(r, c) == f(0, c) && (f(r, c) == 1 || f(r, c) == 0)));
      }
    }
    for (std::int64_t c = 0; c < 20; ++c) columns += f(0, c) == 0;
    BOOST_TEST(rows <= 12);
    any = any || (rows > 6 && columns > 10 && columns < 20);
  }
  BOOST_TEST(any);
  BOOST_CHECK_THROW(time_mask(ones, {.count = -1}, {1, 1}), value_error);
}

BOOST_AUTO_TEST_CASE(spectra_are_those_of_numpy) {
  const mel_options mel{.frames = frames_256, .bands = 20, .rate = 8000, .level = mel_level::power};
  mel_options htk = mel, logs = mel, decibels = mel;
  htk.scale = mel_scale::htk, htk.normalized = false, htk.low = 50, htk.high = 3500;
  logs.level = mel_level::logarithm, decibels.level = mel_level::decibel;
  BOOST_TEST(distance(mel_filters(mel), stored("slaney")) < 1e-6);
  BOOST_TEST(distance(mel_filters(htk), stored("htk")) < 1e-6);
  spectrogram_options magnitude = frames_256;
  magnitude.power = 1, magnitude.center = false;
  const mfcc_options cepstral{.mel = decibels, .coefficients = 13};
  const waveform w = stored_signal();
  BOOST_TEST(distance(audio_features(frames_256)(w), stored("power")) < 2e-6);
  BOOST_TEST(distance(audio_features(magnitude)(w), stored("magnitude")) < 2e-6);
  BOOST_TEST(distance(audio_features(mel)(w), stored("mel")) < 2e-6);
  BOOST_TEST(distance(audio_features(logs)(w), stored("log_mel")) < 2e-5);
  BOOST_TEST(distance(audio_features(cepstral)(w), stored("mfcc")) < 2e-5);
  // The same features as operations of a net.
  const auto in_net = [&](const auto& f) {
    ir::program p;
    p.output("y", f(p.input("x", {dtype::float32, {1, 1200}})));
    ir::session s(std::make_shared<const ir::program>(std::move(p)));
    return s.run(std::vector<any_tensor>{w.samples})[0].as<float, extents<dyn, dyn, dyn>>()[0].copy();
  };
  BOOST_TEST(distance(in_net([&](const auto& x) { return spectrogram(x, frames_256); }), stored("power")) < 2e-6);
  BOOST_TEST(distance(in_net([&](const auto& x) { return spectrogram(x, magnitude); }), stored("magnitude")) < 2e-6);
  BOOST_TEST(distance(in_net([&](const auto& x) { return mel_spectrogram(x, logs); }), stored("log_mel")) < 2e-5);
  BOOST_TEST(distance(in_net([&](const auto& x) { return mfcc(x, cepstral); }), stored("mfcc")) < 2e-5);
}

BOOST_AUTO_TEST_CASE(spectra_have_gradients) {
  using namespace engine_test;
  const spectrogram_options small{.length = 16, .window = 12, .step = 6};
  spectrogram_options magnitude = small;
  magnitude.power = 1;
  const mel_options mel{.frames = small, .bands = 4, .rate = 100};
  mel_options decibels = mel;
  decibels.level = mel_level::decibel, decibels.range = 0;
  const array signals = random_array(dtype::float64, {2, 40}, 5);
  const auto worst = [&](const builder& build) {
    const auto report = check_gradient({signals}, build, true, extents_known::when_built);
    BOOST_TEST_MESSAGE(report.where);
    return report.worst;
  };
  const auto one = [](const ir::value& v) { return std::vector<ir::value>{v}; };
  BOOST_TEST(worst([&](auto& v) { return one(spectrogram(v[0], small)); }) < gradient_tolerance);
  BOOST_TEST(worst([&](auto& v) { return one(spectrogram(v[0], magnitude)); }) < gradient_tolerance);
  BOOST_TEST(worst([&](auto& v) { return one(mel_spectrogram(v[0], mel)); }) < gradient_tolerance);
  BOOST_TEST(worst([&](auto& v) { return one(mfcc(v[0], {.mel = decibels, .coefficients = 3})); }) <
             gradient_tolerance);
}

BOOST_AUTO_TEST_CASE(features_of_any_length_on_any_thread) {
  const audio_features features(mel_options{.frames = frames_256, .bands = 20, .rate = 8000});
  std::vector<waveform> all;
  for (std::int64_t n : {1, 80, 333, 1200, 5000}) all.push_back(made(1, n, 8000));
  std::vector<matrix<float>> alone, together(all.size());
  for (const auto& w : all) alone.push_back(features(w));
  BOOST_TEST(alone[2].extent(0) == 1 + 333 / 80);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < all.size(); ++i) threads.emplace_back([&, i] { together[i] = features(all[i]); });
  for (auto& t : threads) t.join();
  for (std::size_t i = 0; i < all.size(); ++i) BOOST_TEST(same(alone[i], together[i]));
}

BOOST_AUTO_TEST_CASE(features_refuse_what_they_are_not_for) {
  const mel_options mel{.frames = frames_256, .bands = 20, .rate = 8000};
  const audio_features features(mel);
  BOOST_CHECK_EXCEPTION(features(made(2, 500, 8000)), shape_error,
                        (says{{"expected a waveform of one channel; got 2; to_mono"}}));
  BOOST_CHECK_EXCEPTION(features(made(1, 500, 16000)), value_error,
                        (says{{"expected a rate of 8000; got 16000; resample"}}));
  spectrogram_options bare = frames_256;
  bare.center = false;
  BOOST_CHECK_EXCEPTION(audio_features{bare}(made(1, 100, 8000)), shape_error,
                        (says{{"100 samples are less than a frame of 200"}}));
  const auto refuse = [](mel_options o, std::string_view what) {
    BOOST_CHECK_EXCEPTION(audio_features{o}, value_error, (says{{"audio_features: ", what}}));
  };
  mel_options o = mel;
  o.frames.length = 0, refuse(o, "`length` is 0; expected 1 to 16384");
  o = mel, o.frames.window = 300, refuse(o, "`window` is 300; expected 0 to 256");
  o = mel, o.frames.step = 0, refuse(o, "`step` is 0");
  o = mel, o.frames.power = 3, refuse(o, "`power` is 3; expected 1 or 2");
  o = mel, o.high = 5000, refuse(o, "bands from 0 to 5000 Hz; expected 0 <= low < high <= rate / 2");
  o = mel, o.bands = 0, refuse(o, "`bands` is 0");
  o = mel, o.floor = 0, refuse(o, "`floor` is 0");
  BOOST_CHECK_EXCEPTION(audio_features(mfcc_options{.mel = mel, .coefficients = 21}), value_error,
                        (says{{"`coefficients` is 21"}}));
  BOOST_CHECK_THROW(cosine_transform(4, 5), value_error);
}

BOOST_AUTO_TEST_SUITE_END()
