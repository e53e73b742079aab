#include "kvcache/ssd_log.hpp"

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <tuple>
#include <utility>

#include "core/background_thread.hpp"
#include "core/invariant.hpp"
#include "kvcache/log_folder.hpp"
#include "kvcache/ssd_index.hpp"

namespace yolk::kvcache {

namespace {

constexpr std::uint64_t max_file_bytes = std::uint64_t{1} << 30;
constexpr std::uint64_t files_in_limit = 16;
constexpr std::size_t spare_nodes = 1024;

/// A file as the log's books have it.
struct file_entry {
  std::shared_ptr<log_file> file;
  std::vector<block_key> keys;  ///< by record; what is not the key's place (any more) does not count
  std::uint64_t bytes = 0;      ///< on disk, at most
};

struct save_job {
  std::shared_ptr<log_file> file;
  record_place place;
  record_head head;
  std::vector<std::byte> head_bytes;
  std::span<const std::byte> block;
  std::function<void(bool)> on_done;
};

struct read_job {
  std::shared_ptr<log_file> file;
  record_place place;
  ssd_index::node expected;
  block_key key;
  std::vector<std::byte> head_bytes;
  std::span<std::byte> block;
  std::function<void(std::optional<block_header>)> on_read;
  std::optional<block_header> header;  ///< once all checks were passed
};

/// Whether what was read is the block that the index promised. Reads all its bytes.
std::optional<block_header> check(const read_job& job, const record_layout& layout) {
  auto head = decode_record_head(job.head_bytes, job.place, layout);
  if (!head || head->header.key != job.key ||
      (head->parent_id == record_id{}) != (job.expected.parent_id == record_id{}))
    return std::nullopt;
  if (!verify_block(head->header, job.expected.parent, job.expected.tokens, job.expected.first_position,
                    job.block, layout.block))
    return std::nullopt;
  return std::move(head->header);
}

}  // namespace

struct ssd_log::state : std::enable_shared_from_this<ssd_log::state> {
  state(const ssd_log_options& given, std::unique_ptr<io_backend> backend)
      : options(given),
        layout(given.layout),
        records_per_file(static_cast<std::uint32_t>((given.file_bytes - record_layout::file_head_bytes) /
                                                    layout.record_bytes)),
        index(given.layout.block_tokens,
              static_cast<std::size_t>(2 * given.byte_limit / layout.record_bytes) + spare_nodes),
        io(std::move(backend), given.io),
        file_jobs("ssd-files") {}

  // Opening and reclaiming files.
  void adopt(log_folder::contents found);
  void make_room(std::uint64_t wanted_bytes);
  void drop_oldest();
  void begin_file();
  [[nodiscard]] std::uint64_t used_bytes() const;

  // Saving.
  void run_save(const std::shared_ptr<save_job>& job);
  void save_ended(const std::shared_ptr<save_job>& job, int error);
  void finish_save(const save_job& job, int error);
  void forget_record(const record_place& place);

  // Reading.
  void read_ended(const std::shared_ptr<read_job>& job, int error);
  void finish_read(const read_job& job, int error);

  [[nodiscard]] file_entry* find_file(std::uint64_t number) {
    const auto found = std::ranges::find_if(
        files, [&](const file_entry& entry) { return entry.file->head().number == number; });
    return found == files.end() ? nullptr : &*found;
  }

  ssd_log_options options;
  record_layout layout;
  std::uint32_t records_per_file;
  std::unique_ptr<log_folder> folder;
  ssd_index index;
  std::deque<file_entry> files;  ///< in the order in which they are reclaimed
  bool appending = false;        ///< the last of files takes new records
  std::uint64_t next_file = 1;
  std::uint64_t log_id = 0;
  std::uint64_t next_id = 1;
  bool gave_way = false;  ///< a file was dropped because the disk is full; nothing was saved since
  std::uint64_t saving_bytes = 0;
  std::uint32_t reading = 0;
  ssd_log_counters counters;
  poster post;

  std::mutex saving_mutex;  ///< flush() waits for the I/O threads, not for the owner's messages
  std::condition_variable saved;
  std::uint32_t saving = 0;

  io_queue io;
  core::background_thread file_jobs;  ///< ends first: its jobs submit to io
};

result<std::unique_ptr<ssd_log>> ssd_log::open(const ssd_log_options& given,
                                               std::unique_ptr<io_backend> backend) {
  const record_layout layout(given.layout);
  auto options = given;
  const std::uint64_t least = record_layout::file_head_bytes + layout.record_bytes;
  if (options.file_bytes == 0)
    options.file_bytes = std::min(options.byte_limit / files_in_limit, max_file_bytes);
  options.file_bytes = std::max(options.file_bytes, least);
  if (options.byte_limit < 2 * options.file_bytes)
    return core::failure<errc>{errc::storage_failed, "the limit of " + std::to_string(options.byte_limit) +
                                                         " bytes is less than two files of " +
                                                         std::to_string(options.file_bytes)};
  auto folder = log_folder::open(options.folder);
  if (!folder) return folder.error();
  auto found = (*folder)->scan(options.owner, layout);
  if (!found) return found.error();
  auto made = std::make_shared<state>(options, std::move(backend));
  made->folder = std::move(folder).value();
  made->adopt(std::move(found).value());
  return std::unique_ptr<ssd_log>(new ssd_log(std::move(made)));
}

ssd_log::ssd_log(std::shared_ptr<state> made) : state_(std::move(made)) {}

void ssd_log::attach(poster post) {
  state_->post = std::move(post);
}

ssd_log::~ssd_log() {
  state_->file_jobs.stop();
  state_->io.stop();
}

void ssd_log::state::adopt(log_folder::contents found) {
  log_id = options.incarnation.value;
  // What is not ours goes first.
  std::ranges::stable_sort(found.files, {}, &found_file::ours);
  for (auto& each : found.files) {
    next_file = std::max(next_file, each.file->head().number + 1);
    appending = each.ours && each.record_count < records_per_file;
    files.push_back({std::move(each.file), std::vector<block_key>(each.record_count), each.bytes});
  }
  if (appending) files.back().bytes = options.file_bytes;
  // A parent has the smaller id, also when it was written again since. Of two records of one prefix the newer
  // counts.
  std::ranges::sort(found.records, [](const found_record& a, const found_record& b) {
    return std::tuple(a.head.id, a.place.file, a.place.record) <
           std::tuple(b.head.id, b.place.file, b.place.record);
  });
  for (const auto& each : found.records) {
    log_id = std::max(log_id, each.head.id.log + 1);
    if (index.restore(each.head, each.place))
      find_file(each.place.file)->keys[each.place.record] = each.head.header.key;
  }
  index.end_restore();
  counters.restored_blocks = index.stored_count();
  make_room(0);
}

std::uint64_t ssd_log::state::used_bytes() const {
  std::uint64_t bytes = 0;
  for (const auto& each : files) bytes += each.bytes;
  return bytes;
}

void ssd_log::state::make_room(std::uint64_t wanted_bytes) {
  while (!files.empty() && used_bytes() + wanted_bytes > options.byte_limit) drop_oldest();
}

void ssd_log::state::drop_oldest() {
  const file_entry oldest = std::move(files.front());
  files.pop_front();
  if (files.empty()) appending = false;
  const auto before = index.stored_count();
  for (std::uint32_t record = 0; record < oldest.keys.size(); ++record)
    index.lose(oldest.keys[record], {oldest.file->head().number, record});
  ++counters.reclaimed_files;
  counters.reclaimed_blocks += before - index.stored_count();
  if (!file_jobs.post([file = oldest.file] { file->remove(); })) oldest.file->remove();
}

void ssd_log::state::begin_file() {
  if (appending && files.back().keys.size() < records_per_file) return;
  make_room(options.file_bytes);
  const log_file_head head{.number = next_file++, .owner = options.owner, .layout = options.layout};
  files.push_back({std::make_shared<log_file>(folder->path_of(head.number), head), {}, options.file_bytes});
  appending = true;
}

ssd_log::save_outcome ssd_log::save(const block_header& header, std::span<const std::byte> block,
                                    std::function<void(bool)> on_done) {
  state& s = *state_;
  YOLK_INVARIANT(block.size() == s.layout.block.block_bytes(), block.size());
  if (knows(header.key)) return save_outcome::present;
  if (saving_room() == 0 || header.layer_checksums.size() != s.layout.block.layer_count) {
    ++s.counters.dropped_saves;
    return save_outcome::dropped;
  }
  s.begin_file();
  file_entry& file = s.files.back();
  const record_place place{file.file->head().number, static_cast<std::uint32_t>(file.keys.size())};
  const auto added = s.index.add(header, {s.log_id, s.next_id}, place);
  if (added != ssd_index::added::ok) {
    if (added == ssd_index::added::present) return save_outcome::present;
    ++s.counters.dropped_saves;
    return save_outcome::dropped;
  }
  ++s.next_id;
  file.keys.push_back(header.key);
  const auto* node = s.index.find(header.key);
  auto job = std::make_shared<save_job>(save_job{.file = file.file,
                                                 .place = place,
                                                 .head = {node->id, node->parent_id, header},
                                                 .head_bytes = {},
                                                 .block = block,
                                                 .on_done = std::move(on_done)});
  s.saving_bytes += s.layout.record_bytes;
  {
    const std::lock_guard lock(s.saving_mutex);
    ++s.saving;
  }
  if (!s.file_jobs.post([&s, job] { s.run_save(job); })) s.save_ended(job, EBUSY);
  return save_outcome::started;
}

void ssd_log::state::run_save(const std::shared_ptr<save_job>& job) {
  if (!job->file->create()) return save_ended(job, EIO);
  job->head_bytes.resize(layout.head_bytes);
  encode(job->head, job->place, layout, job->head_bytes);
  // A write only reads its buffers.
  auto* bytes = const_cast<std::byte*>(job->block.data());  // NOLINT(cppcoreguidelines-pro-type-const-cast)
  io.submit({.what = io_request::kind::write,
             .file = job->file->descriptor(),
             .offset = layout.offset(job->place.record),
             .buffers = {job->head_bytes, std::span(bytes, job->block.size())}},
            [this, job](int error) { save_ended(job, error); });
}

/// On whatever thread it ended.
void ssd_log::state::save_ended(const std::shared_ptr<save_job>& job, int error) {
  post([weak = weak_from_this(), job, error] {
    if (const auto self = weak.lock()) self->finish_save(*job, error);
  });
  {
    const std::lock_guard lock(saving_mutex);
    --saving;
  }
  saved.notify_all();
}

void ssd_log::state::finish_save(const save_job& job, int error) {
  saving_bytes -= layout.record_bytes;
  if (error == 0) {
    ++counters.saved_blocks;
    gave_way = false;
    index.written(job.head.header.key, job.place);
  } else {
    ++counters.failed_saves;
    index.lose(job.head.header.key, job.place);
    forget_record(job.place);
    // Whether the limit is more than the disk has, or others filled it: a cache gives way, one file at a
    // time.
    if ((error == ENOSPC || error == EDQUOT) && !gave_way && files.size() > 1) {
      gave_way = true;
      drop_oldest();
    }
  }
  job.on_done(error == 0);
}

/// The end of the file that is written to goes back over records that failed, so that a disk that takes
/// nothing does not use up file after file.
void ssd_log::state::forget_record(const record_place& place) {
  file_entry* const file = find_file(place.file);
  if (file == nullptr || !appending || file != &files.back()) return;
  file->keys[place.record] = block_key{};
  while (!file->keys.empty() && file->keys.back() == block_key{}) file->keys.pop_back();
}

std::vector<block_key> ssd_log::match(block_key root, std::span<const core::token_id> tokens,
                                      std::size_t skip_blocks, std::size_t max_tokens) {
  return state_->index.match(root, tokens, skip_blocks, max_tokens);
}

bool ssd_log::read(block_key key, std::span<std::byte> into,
                   std::function<void(std::optional<block_header>)> on_read) {
  state& s = *state_;
  YOLK_INVARIANT(into.size() == s.layout.block.block_bytes(), into.size());
  const auto* node = s.index.find(key);
  if (node == nullptr || node->state != ssd_index::payload::stored || s.reading >= s.options.max_reads)
    return false;
  const file_entry* file = s.find_file(node->place.file);
  YOLK_INVARIANT(file != nullptr, node->place.file);
  auto job = std::make_shared<read_job>(read_job{.file = file->file,
                                                 .place = node->place,
                                                 .expected = *node,
                                                 .key = key,
                                                 .head_bytes = std::vector<std::byte>(s.layout.head_bytes),
                                                 .block = into,
                                                 .on_read = std::move(on_read),
                                                 .header = std::nullopt});
  ++s.reading;
  s.io.submit({.what = io_request::kind::read,
               .file = job->file->descriptor(),
               .offset = s.layout.offset(job->place.record),
               .buffers = {job->head_bytes, into}},
              [&s, job](int error) { s.read_ended(job, error); });
  return true;
}

/// On the backend's thread.
void ssd_log::state::read_ended(const std::shared_ptr<read_job>& job, int error) {
  if (error == 0) job->header = check(*job, layout);
  post([weak = weak_from_this(), job, error] {
    if (const auto self = weak.lock()) self->finish_read(*job, error);
  });
}

void ssd_log::state::finish_read(const read_job& job, int error) {
  --reading;
  if (job.header) {
    ++counters.read_blocks;
  } else if (error != ECANCELED) {
    ++(error == 0 ? counters.failed_checks : counters.failed_reads);
    index.lose(job.key, job.place);
  }
  job.on_read(job.header);
}

bool ssd_log::flush(core::duration limit) {
  std::unique_lock lock(state_->saving_mutex);
  return state_->saved.wait_for(lock, limit, [this] { return state_->saving == 0; });
}

std::size_t ssd_log::saving_room() const {
  const std::uint64_t record = state_->layout.record_bytes;
  const std::uint64_t limit = std::min<std::uint64_t>(state_->options.max_saving_bytes / record,
                                                      core::background_thread::max_queued / 2);
  return static_cast<std::size_t>(limit - std::min(limit, state_->saving_bytes / record));
}
bool ssd_log::knows(block_key key) const {
  const auto* node = state_->index.find(key);
  return node != nullptr && node->state != ssd_index::payload::none;
}
bool ssd_log::holds(block_key key) const {
  return state_->index.stored(key);
}
std::vector<block_key> ssd_log::snapshot() const {
  return state_->index.snapshot();
}
void ssd_log::set_listener(std::function<void(const cache_event&)> listener) {
  state_->index.set_listener(std::move(listener));
}
std::uint64_t ssd_log::used_bytes() const {
  return state_->used_bytes();
}
std::uint64_t ssd_log::byte_limit() const {
  return state_->options.byte_limit;
}
std::uint64_t ssd_log::record_bytes() const {
  return state_->layout.record_bytes;
}
std::size_t ssd_log::stored_count() const {
  return state_->index.stored_count();
}
bool ssd_log::idle() const {
  return state_->saving_bytes == 0 && state_->reading == 0;
}
const ssd_log_counters& ssd_log::counters() const {
  return state_->counters;
}
const char* ssd_log::backend_name() const {
  return state_->io.backend_name();
}

std::string ssd_log::audit() const {
  const state& s = *state_;
  if (std::string broken = s.index.audit(); !broken.empty()) return broken;
  if (s.used_bytes() > s.options.byte_limit)
    return std::to_string(s.used_bytes()) + " bytes are used of " + std::to_string(s.options.byte_limit);
  std::size_t stored = 0;
  for (const auto& file : s.files)
    for (std::uint32_t record = 0; record < file.keys.size(); ++record) {
      const auto* node = s.index.find(file.keys[record]);
      stored += node != nullptr && node->state == ssd_index::payload::stored &&
                node->place == record_place{file.file->head().number, record};
    }
  if (stored != s.index.stored_count()) return "stored blocks lie in no file";
  return {};
}

}  // namespace yolk::kvcache
