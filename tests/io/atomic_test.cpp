// Files are replaced completely or not at all.
#include <boost/test/unit_test.hpp>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <thread>

#include "files.h"

import lamina;

using namespace lamina;
using test_files::says;
namespace fs = std::filesystem;

namespace {

void write_words(const std::string& path, const std::string& words) {
  write_file_atomically(path, [&](writer& w) { w.write(words.data(), words.size()); });
}

}  // namespace

BOOST_AUTO_TEST_SUITE(io_atomic)

BOOST_AUTO_TEST_CASE(a_new_file_holds_what_was_written_and_nothing_stays_beside_it) {
  test_files::folder dir;
  std::string large(300'000, 'x');
  write_file_atomically(dir / "a", [&](writer& w) {
    w.write("begin", 5);
    w.write(large.data(), large.size());
    w.write("end", 3);
    w.write(nullptr, 0);
  });
  BOOST_CHECK(test_files::read_raw(dir / "a") == "begin" + large + "end");
  BOOST_CHECK_EQUAL(dir.count(), 1);
}

BOOST_AUTO_TEST_CASE(the_old_file_is_seen_until_the_new_one_is_whole) {
  test_files::folder dir;
  write_words(dir / "a", "old");
  write_file_atomically(dir / "a", [&](writer& w) {
    std::string large(1 << 20, 'x');
    w.write(large.data(), large.size());
    BOOST_CHECK_EQUAL(test_files::read_raw(dir / "a"), "old");
  });
  BOOST_CHECK_EQUAL(fs::file_size(dir / "a"), 1u << 20);
}

BOOST_AUTO_TEST_CASE(an_exception_leaves_the_old_file_and_no_other) {
  test_files::folder dir;
  write_words(dir / "a", "old");
  auto failing = [](writer& w) {
    w.write("half", 4);
    throw std::runtime_error("no more");
  };
  BOOST_CHECK_THROW(write_file_atomically(dir / "a", failing), std::runtime_error);
  BOOST_CHECK_THROW(write_file_atomically(dir / "b", failing), std::runtime_error);
  BOOST_CHECK_EQUAL(test_files::read_raw(dir / "a"), "old");
  BOOST_CHECK_EQUAL(dir.count(), 1);
}

BOOST_AUTO_TEST_CASE(a_write_that_the_system_cuts_short_leaves_the_old_file) {
  test_files::folder dir;
  write_words(dir / "a", "old");
  auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  rlimit small{100'000, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  auto large = [](writer& w) {
    std::string part(60'000, 'x');
    for (int i = 0; i < 10; ++i) w.write(part.data(), part.size());
  };
  BOOST_CHECK_EXCEPTION(write_file_atomically(dir / "a", large), file_error, (says{{dir / "a", "File too large"}}));
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  BOOST_CHECK_EQUAL(test_files::read_raw(dir / "a"), "old");
  BOOST_CHECK_EQUAL(dir.count(), 1);
}

BOOST_AUTO_TEST_CASE(permissions_of_the_old_file_are_kept_and_new_ones_follow_the_mask) {
  test_files::folder dir;
  auto mode = [&](const char* name) {
    struct stat s{};
    stat((dir / name).c_str(), &s);
    return s.st_mode & 07777;
  };
  write_words(dir / "a", "old");
  chmod((dir / "a").c_str(), 0640);
  write_words(dir / "a", "new");
  BOOST_CHECK_EQUAL(mode("a"), 0640u);
  auto mask = umask(027);
  write_words(dir / "b", "new");
  umask(mask);
  BOOST_CHECK_EQUAL(mode("b"), 0640u);
}

BOOST_AUTO_TEST_CASE(a_symbolic_link_is_followed_and_stays) {
  test_files::folder dir;
  fs::create_directory(dir / "sub");
  write_words(dir / "sub/real", "old");
  fs::create_symlink("sub/real", dir / "link");
  fs::create_symlink("link", dir / "link2");
  write_words(dir / "link2", "new");
  BOOST_CHECK(fs::is_symlink(dir / "link") && fs::is_symlink(dir / "link2"));
  BOOST_CHECK_EQUAL(test_files::read_raw(dir / "sub/real"), "new");
  fs::create_symlink("sub/later", dir / "dangling");
  write_words(dir / "dangling", "new");
  BOOST_CHECK(fs::is_symlink(dir / "dangling"));
  BOOST_CHECK_EQUAL(test_files::read_raw(dir / "sub/later"), "new");
  fs::create_symlink("round", dir / "round");
  BOOST_CHECK_EXCEPTION(write_words(dir / "round", "new"), file_error, (says{{dir / "round", "symbolic links"}}));
}

// Writes in a child process that is killed before it has finished.
static void write_and_be_killed(const std::string& path) {
  const pid_t child = ::fork();
  BOOST_REQUIRE(child >= 0);
  if (child == 0) {
    write_file_atomically(path, [](writer& w) {
      w.write(std::string(100'000, 'x'));
      ::raise(SIGKILL);
    });
    ::_exit(0);
  }
  int status = 0;
  BOOST_REQUIRE_EQUAL(::waitpid(child, &status, 0), child);
  BOOST_REQUIRE(WIFSIGNALED(status));
}

BOOST_AUTO_TEST_CASE(what_a_killed_writer_leaves_goes_with_the_next_write) {
  test_files::folder dir;
  write_words(dir / "a", "old");
  for (int i = 0; i < 3; ++i) write_and_be_killed(dir / "a");
  fs::create_directory(dir / ".lamina-bundle-aB3dE6");
  test_files::write_raw(dir / ".lamina-bundle-aB3dE6/calls.o", "half");
  BOOST_CHECK_EQUAL(test_files::read_raw(dir / "a"), "old");
  BOOST_CHECK_EQUAL(dir.count(), 5);
  // A failed write of another file does not remove the leftovers; a successful one does.
  BOOST_CHECK_THROW(write_file_atomically(dir / "b", [](writer&) { throw std::runtime_error("no more"); }),
                    std::runtime_error);
  BOOST_CHECK_EQUAL(dir.count(), 5);
  write_words(dir / "b", "new");
  BOOST_CHECK_EQUAL(dir.count(), 2);
}

BOOST_AUTO_TEST_CASE(what_others_are_writing_or_own_stays) {
  test_files::folder dir;
  test_files::write_raw(dir / "kept", "kept");
  fs::create_symlink("kept", dir / ".lamina-1-0.tmp");
  test_files::write_raw(dir / ".lamina-my notes.tmp", "mine");
  test_files::write_raw(dir / ".lamina-bundle-aB3dE6", "a file");
  BOOST_REQUIRE_EQUAL(mkfifo((dir / ".lamina-2-0.tmp").c_str(), 0600), 0);
  write_file_atomically(dir / "outer", [&](writer& outer) {
    outer.write("outer");
    write_file_atomically(dir / "inner", [](writer& inner) { inner.write("inner"); });
    std::thread([&] { write_words(dir / "third", "third"); }).join();
  });
  BOOST_CHECK_EQUAL(test_files::read_raw(dir / "outer"), "outer");
  BOOST_CHECK_EQUAL(test_files::read_raw(dir / "inner"), "inner");
  BOOST_CHECK_EQUAL(test_files::read_raw(dir / "kept"), "kept");
  BOOST_CHECK_EQUAL(dir.count(), 8);
}

BOOST_AUTO_TEST_CASE(devices_and_pipes_are_written_in_place) {
  auto is_device = [](const char* path) {
    struct stat s{};
    return stat(path, &s) == 0 && S_ISCHR(s.st_mode);
  };
  write_words("/dev/null", "gone");
  BOOST_CHECK(is_device("/dev/null"));
  BOOST_CHECK_EXCEPTION(write_words("/dev/full", "too much"), file_error,
                        (says{{"/dev/full", "No space left on device"}}));
  BOOST_CHECK(is_device("/dev/full"));

  test_files::folder dir;
  auto pipe = dir / "pipe";
  BOOST_REQUIRE_EQUAL(mkfifo(pipe.c_str(), 0600), 0);
  std::string received;
  std::thread reader([&] { received = test_files::read_raw(pipe); });
  write_words(pipe, "through");
  reader.join();
  BOOST_CHECK_EQUAL(received, "through");
  BOOST_CHECK(fs::is_fifo(pipe));
}

BOOST_AUTO_TEST_CASE(what_cannot_be_written_is_named_with_its_reason) {
  test_files::folder dir;
  BOOST_CHECK_EXCEPTION(write_words(dir / "", "x"), file_error, (says{{"a file name is expected"}}));
  BOOST_CHECK_EXCEPTION(write_words("", "x"), file_error,
                        (says{{"the path is empty: cannot be written: a file name is expected"}}));
  BOOST_CHECK_EXCEPTION(read_idx(""), file_error, (says{{"the path is empty: cannot be read"}}));
  BOOST_CHECK_EXCEPTION(write_words(dir.path.string(), "x"), file_error, (says{{dir.path.string(), "Is a directory"}}));
  BOOST_CHECK_EXCEPTION(write_words(dir / "none/a", "x"), file_error,
                        (says{{dir / "none/a", "No such file or directory"}}));
  write_words(dir / "a", "old");
  BOOST_CHECK_EXCEPTION(write_words(dir / "a/b", "x"), file_error, (says{{"Not a directory"}}));
}

BOOST_AUTO_TEST_CASE(what_must_not_be_written_is_not) {
  test_files::unprivileged user;
  test_files::folder dir;
  write_words(dir / "a", "old");
  chmod((dir / "a").c_str(), 0400);
  BOOST_CHECK_EXCEPTION(write_words(dir / "a", "x"), file_error, (says{{dir / "a", "Permission denied"}}));
  chmod(dir.path.c_str(), 0500);
  BOOST_CHECK_EXCEPTION(write_words(dir / "b", "x"), file_error, (says{{dir / "b", "Permission denied"}}));
  chmod(dir.path.c_str(), 0700);
  BOOST_CHECK_EQUAL(test_files::read_raw(dir / "a"), "old");
  BOOST_CHECK_EQUAL(dir.count(), 1);
}

BOOST_AUTO_TEST_CASE(what_is_appended_is_in_the_file_at_once) {
  test_files::folder dir;
  write_words(dir / "a", "old ");
  append_file a(dir / "a");
  BOOST_CHECK_EQUAL(test_files::read_raw(dir / "a"), "old ");
  a.write("one ");
  BOOST_CHECK_EQUAL(test_files::read_raw(dir / "a"), "old one ");
  append_file moved(std::move(a));
  moved.write(std::string(200000, 'x'));
  BOOST_CHECK_EQUAL(test_files::read_raw(dir / "a"), "old one " + std::string(200000, 'x'));
  BOOST_CHECK_EXCEPTION(a.write("y"), state_error, (says{{"append_file: it was moved"}}));
  append_file(dir / "new").write("z");
  BOOST_CHECK_EQUAL(test_files::read_raw(dir / "new"), "z");
  BOOST_CHECK_EXCEPTION(append_file(dir / "none/a"), file_error, (says{{dir / "none/a", "No such file or directory"}}));
  BOOST_CHECK_EXCEPTION(append_file(dir.path.string()), file_error, (says{{dir.path.string(), "Is a directory"}}));
  append_file full("/dev/full");
  BOOST_CHECK_EXCEPTION(full.write("y"), file_error, (says{{"/dev/full: cannot be written: No space left"}}));
}

BOOST_AUTO_TEST_SUITE_END()
