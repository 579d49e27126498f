// What is written to standard error: a progress bar beside warnings and errors, and hints in words of the command line.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <sstream>
#include <thread>

#include "tests/train/rows.h"
#include "thalweg/cli/datasets.h"
#include "thalweg/cli/messages.h"
#include "thalweg/core/log.h"
#include "thalweg/thalweg.h"

namespace thalweg {
namespace {

// Standard error as a terminal while it lives.
class Terminal {
 public:
  explicit Terminal(unsigned short columns)
      : program_(::posix_openpt(O_RDWR | O_NOCTTY)), saved_(::dup(STDERR_FILENO)) {
    ::grantpt(program_), ::unlockpt(program_);
    const int screen = ::open(::ptsname(program_), O_RDWR | O_NOCTTY);
    const winsize size{.ws_row = 24, .ws_col = columns, .ws_xpixel = 0, .ws_ypixel = 0};
    ::ioctl(screen, TIOCSWINSZ, &size);
    ::dup2(screen, STDERR_FILENO), ::close(screen);
    ::setenv("TERM", "xterm", 1);
  }
  ~Terminal() { ::dup2(saved_, STDERR_FILENO), ::close(saved_), ::close(program_); }
  Terminal(const Terminal&) = delete;

  static bool is_possible() {  // not in every container
    const int program = ::posix_openpt(O_RDWR | O_NOCTTY);
    if (program >= 0) ::close(program);
    return program >= 0;
  }

  // All that was written, as the lines that it leaves on the screen.
  std::vector<std::string> lines() const {
    std::vector<std::string> lines(1);
    std::size_t column = 0;
    char piece[4096];
    for (pollfd ready{program_, POLLIN, 0}; ::poll(&ready, 1, 100) > 0 && (ready.revents & POLLIN);) {
      const std::string text(piece, static_cast<std::size_t>(::read(program_, piece, sizeof(piece))));
      for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] == '\n') {
          lines.emplace_back();
        } else if (text[i] == '\r') {
          column = 0;
        } else if (text.substr(i, 3) == "\033[K") {
          lines.back().resize(column), i += 2;
        } else {
          lines.back().resize(std::max(lines.back().size(), column + 1));
          lines.back()[column++] = text[i];
        }
      }
    }
    return lines;
  }

 private:
  const int program_, saved_;
};

// At the second of four steps.
struct AtStep : train::Callback {
  explicit AtStep(std::function<void()> f) : f(std::move(f)) {}
  void on_step_end(train::Session& session) override {
    if (session.step == 2) f();
  }
  std::function<void()> f;
};

std::vector<std::string> shown(unsigned short columns, const std::function<void()>& f) {
  const Terminal terminal(columns);
  nn::Sequential model({nn::dense(1)});
  optim::SGD sgd;
  const auto bar = train::progress_bar({.every_seconds = 0});
  try {
    train::fit(
        model, testing::rows(16).batch(4),
        {.optimizer = &sgd, .loss = losses::mean_squared_error, .callbacks = {bar, std::make_shared<AtStep>(f)}});
  } catch (const std::runtime_error& error) {
    std::fputs(error.what(), stderr);
  }
  return terminal.lines();
}

TEST(messages, a_warning_has_a_line_of_its_own_beside_a_progress_bar) {
  if (!Terminal::is_possible()) GTEST_SKIP() << "no pseudo-terminals here";
  set_log_handler(print_warning);
  const auto lines = shown(200, [] { warn("by itself"); });
  set_log_handler({});
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0], "thalweg: warning: by itself");
  EXPECT_TRUE(lines[1].starts_with("epoch 1/1  4/4 [==========]")) << lines[1];
  EXPECT_EQ(lines[2], "");
}

TEST(messages, an_error_has_a_line_of_its_own_behind_a_progress_bar) {
  if (!Terminal::is_possible()) GTEST_SKIP() << "no pseudo-terminals here";
  const auto lines = shown(200, [] { throw std::runtime_error("that was it"); });
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_TRUE(lines[0].starts_with("epoch 1/1  2/4 [=====.....]")) << lines[0];
  EXPECT_EQ(lines[1], "that was it");
}

TEST(messages, ctrl_c_on_a_terminal_is_answered) {
  if (!Terminal::is_possible()) GTEST_SKIP() << "no pseudo-terminals here";
  const auto lines_of = [](bool silent) {
    const Terminal terminal(200);
    nn::Sequential model({nn::dense(1)});
    optim::SGD sgd;
    if (!silent) set_log_handler(print_warning);
    const auto history = train::fit(model, testing::rows(16).batch(4),
                                    {.optimizer = &sgd,
                                     .loss = losses::mean_squared_error,
                                     .callbacks = {std::make_shared<AtStep>([] { ::raise(SIGINT); })},
                                     .stop_on_interrupt = true});
    set_log_handler({});
    EXPECT_TRUE(history.interrupted);
    return terminal.lines();
  };
  const auto lines = lines_of(false);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[1], "the step is finished first; another time ends at once, and saves nothing");
  EXPECT_EQ(lines_of(true).size(), 1u);
}

// Nothing is drawn between the clearing of the line and the warning, on whatever thread that is.
TEST(messages, a_warning_of_another_thread_has_a_line_of_its_own) {
  if (!Terminal::is_possible()) GTEST_SKIP() << "no pseudo-terminals here";
  std::vector<std::string> lines;
  {
    const Terminal terminal(80);
    set_log_handler([](const std::string& text) {
      for (const char c : text + "\n") std::fputc(c, stderr), std::this_thread::yield();
    });
    std::thread other([] {
      for (int i = 0; i < 20; ++i) warn("0123456789");
    });
    for (int i = 0; i < 500; ++i) draw_line("drawn " + std::to_string(i));
    other.join();
    end_line("the end");
    set_log_handler({});
    lines = terminal.lines();
  }
  ASSERT_EQ(lines.size(), 22u);
  for (std::size_t i = 0; i < 20; ++i) EXPECT_EQ(lines[i], "0123456789");
  EXPECT_EQ(lines[20], "the end");
}

TEST(messages, a_progress_bar_goes_to_the_end_of_the_run) {
  const auto last_line = [](const data::Dataset& data, std::int64_t steps, std::int64_t epoch_steps) {
    std::ostringstream out;
    nn::Sequential model({nn::dense(1)});
    optim::SGD sgd;
    train::fit(model, data,
               {.optimizer = &sgd,
                .loss = losses::mean_squared_error,
                .callbacks = {train::progress_bar({.out = &out, .epoch_steps = epoch_steps})},
                .steps = steps});
    return out.str();
  };
  const auto known = testing::rows(40).batch(4), streamed = known.filter([](const data::Element&) { return true; });
  EXPECT_TRUE(last_line(known, 0, 0).starts_with("epoch 1/1  10/10 [==========]"));
  EXPECT_TRUE(last_line(known, 3, 0).starts_with("epoch 1/1  3/3 [==========]"));  // not 3 of 10: nothing comes after
  EXPECT_TRUE(last_line(streamed, 0, 0).starts_with("epoch 1/1  step 10  "));
  EXPECT_TRUE(last_line(streamed, 0, 10).starts_with("epoch 1/1  10/10 [==========]"));
}

// Neither the planning of the first step nor the validation is a part of the rate.
TEST(messages, a_progress_bar_tells_the_rate_of_steps) {
  struct Times : train::Callback {
    void on_step_end(train::Session& session) override { seconds += session.step_seconds; }
    double seconds = 0;
  };
  const auto times = std::make_shared<Times>();
  std::ostringstream out;
  std::vector<nn::LayerMaker> deep(40, nn::dense(4, tanh));
  deep.push_back(nn::dense(1));
  nn::Sequential model(deep);
  optim::Adam adam;
  const auto data = testing::rows(40).batch(4);
  train::fit(model, data,
             {.optimizer = &adam,
              .loss = losses::mean_squared_error,
              .validation = &data,
              .callbacks = {times, train::progress_bar({.out = &out})}});
  const std::string line = out.str();
  const auto end = line.find("/s  "), begin = line.rfind(' ', end);
  EXPECT_GT(std::stod(line.substr(begin, end - begin)), 40 / times->seconds) << line;
}

TEST(messages, a_progress_bar_is_not_wider_than_the_terminal) {
  if (!Terminal::is_possible()) GTEST_SKIP() << "no pseudo-terminals here";
  const auto lines = shown(25, [] { throw std::runtime_error("."); });
  EXPECT_EQ(lines.at(0), "epoch 1/1  2/4 [=====...");
}

TEST(messages, nothing_is_drawn_anew_where_it_cannot_be) {
  if (!Terminal::is_possible()) GTEST_SKIP() << "no pseudo-terminals here";
  const Terminal terminal(80);
  EXPECT_TRUE(cli::draws_on_terminal());
  ::setenv("TERM", "dumb", 1);
  EXPECT_FALSE(cli::draws_on_terminal());
}

TEST(messages, a_word_that_is_nearly_known_is_suggested) {
  const std::vector<std::string> known{"--batch", "--lr", "--clip-norm", "--clip-value", "--data"};
  EXPECT_EQ(cli::suggestion("--bacth", known), ", did you mean --batch?");
  EXPECT_EQ(cli::suggestion("--clipnorm", known), ", did you mean --clip-norm?");
  EXPECT_EQ(cli::suggestion("--l", known), ", did you mean --lr?");
  for (const char* other : {"--rate", "--monitor", "-x", "--", ""})
    EXPECT_EQ(cli::suggestion(other, known), "") << other;
}

TEST(sizes, a_shuffle_over_a_stream_has_a_bounded_buffer) {
  EXPECT_EQ(cli::shuffle_window(1000, 784), 1000);
  EXPECT_EQ(cli::shuffle_window(10'000'000, 784), 1 << 17);
  EXPECT_EQ(cli::shuffle_window(10'000'000, 224 * 224 * 3), 1783);  // 1 GiB of images
  EXPECT_EQ(cli::shuffle_window(10'000'000, std::int64_t{1} << 30), 1);
}

TEST(messages, hints_that_are_known_are_in_words_of_the_command_line) {
  const auto hint = [](const std::string& text) { return "[csv] rows.csv: .missing\n  hint: " + text; };
  EXPECT_EQ(cli::in_own_words(hint("set .missing for empty fields")), hint("fill in the empty fields"));
  for (const char* other : {"set .missing for empty fields of c",
                            "use characters that the file has, or TextUnit::bytes", "leave .columns out", ""})
    EXPECT_EQ(cli::in_own_words(hint(other)), hint(other));
  EXPECT_EQ(cli::in_own_words("no hint"), "no hint");
}

}  // namespace
}  // namespace thalweg
