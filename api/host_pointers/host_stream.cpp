#include "api/host_pointers/host_stream.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <thread>
#include <utility>

#include "tilewise/number.hpp"

namespace tilewise {
namespace {

/// Direct copies of rows shorter than kDirectRow bytes and matrices smaller than kDirectMatrix
/// bytes are slower than copies through a staging buffer.
constexpr std::int64_t kDirectRow = 1024, kDirectMatrix = std::int64_t{1} << 20;
constexpr std::int64_t kMostPitch = (std::int64_t{1} << 31) - 1;

/// Converts elements of C that are summed in a wider type.
void convert(DType to_type, void* to, DType from_type, const void* from, std::int64_t count) {
  if (to_type == DType::f32)
    widen(from_type, from, count, static_cast<float*>(to));
  else
    narrow(to_type, static_cast<const float*>(from), count, to);
}

}  // namespace

template <class Done>
void HostProgress::wait_until(Done done) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return failure_ || done(); });
  if (failure_) throw Ended{};
}

void HostProgress::wait_for_copy(std::int64_t copy) {
  if (copy >= 0) wait_until([&] { return copied_[static_cast<std::size_t>(copy)] != 0; });
}
void HostProgress::wait_for_launch(std::int64_t tile) {
  if (tile >= 0) wait_until([&] { return launched_ > tile; });
}
void HostProgress::wait_for_download(std::int64_t tile) {
  if (tile >= 0) wait_until([&] { return downloaded_[static_cast<std::size_t>(tile)] != 0; });
}

void HostProgress::wait_for_turn(const HostTurns& turns, std::int64_t i) {
  wait_until([&] { return turns.first_left >= i; });
}
void HostProgress::passed(HostTurns& turns, std::int64_t i) {
  {
    const std::lock_guard lock(mutex_);
    turns.enqueued[static_cast<std::size_t>(i)] = 1;
    while (turns.first_left < std::ssize(turns.enqueued) &&
           turns.enqueued[static_cast<std::size_t>(turns.first_left)])
      ++turns.first_left;
  }
  changed_.notify_all();
}

void HostProgress::fail(std::exception_ptr failure) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = std::move(failure);
  }
  changed_.notify_all();
}

StreamedProduct::StreamedProduct(Device& device, HostStaging& staging, const FittingSplit& fit,
                                 const Executables& executables, const Call& call)
    : device_(device),
      staging_(staging),
      plan_(fit.plan),
      executables_(executables),
      call_(call),
      uploads_left_(plan_.copies.size()),
      downloads_left_(plan_.tiles.size()),
      progress_(plan_.copies.size(), plan_.tiles.size()),
      up_(staging.up),
      compute_(staging.compute),
      down_(staging.down) {
  for (const HostOperand operand : kHostOperands)
    host_[static_cast<std::size_t>(operand)] = matrices(operand, call);
  make_slots(fit.workspace);
  for (std::size_t i = 0; i < plan_.copies.size(); ++i) {
    const HostCopy& copy = plan_.copies[i];
    add_chunks(uploads_, uploads_left_, static_cast<std::int64_t>(i), copy.operand,
               plan_.tiles[static_cast<std::size_t>(copy.tile)]);
  }
  for (std::size_t i = 0; i < plan_.tiles.size(); ++i)
    if (plan_.tiles[i].ends)
      add_chunks(downloads_, downloads_left_, static_cast<std::int64_t>(i), HostOperand::c,
                 plan_.tiles[i]);
  upload_turns_.enqueued.resize(uploads_.size());
  download_turns_.enqueued.resize(downloads_.size());
}

/// Tiles are computed one after the other and share one workspace, which follows the slots.
void StreamedProduct::make_slots(std::int64_t workspace) {
  auto* place = static_cast<std::byte*>(staging_.device_memory(plan_.slots_bytes() + workspace));
  for (const HostOperand operand : kHostOperands) {
    const auto which = static_cast<std::size_t>(operand);
    const std::int64_t bytes = plan_.slot_bytes(operand);
    for (std::int64_t i = 0; i < plan_.shape.slots[which]; ++i, place += bytes)
      slots_[which].push_back({place, device_.create_sleeping_event(),
                               device_.create_sleeping_event(), device_.create_sleeping_event()});
  }
  workspace_ = place;
}

StreamedProduct::Matrices StreamedProduct::matrices(HostOperand operand, const Call& call) const {
  const Problem& p = plan_.task.problem;
  const HostBlock all = plan_.block(operand, {});
  Matrices x;
  std::int64_t rows = p.m, columns = p.n, count = p.batch;
  if (operand == HostOperand::a) {
    x = {static_cast<std::byte*>(const_cast<void*>(call.a)), call.lda, call.stride_a, p.a.type,
         false};
    rows = rows_a(p), columns = min_lda(p);
  } else if (operand == HostOperand::b) {
    x = {static_cast<std::byte*>(const_cast<void*>(call.b)), call.ldb, call.stride_b, p.b.type,
         false};
    rows = rows_b(p), columns = min_ldb(p);
  } else {
    x = {static_cast<std::byte*>(call.c), call.ldc, call.stride_c, p.c.type, false};
  }
  if (all.rows == 0 || all.columns == 0) return x;
  const std::int64_t extent = (count - 1) * x.stride + (rows - 1) * x.ld + columns;
  x.page_locked = device_.page_locked(x.data, bytes_of(x.type, extent));
  return x;
}

bool StreamedProduct::is_direct(HostOperand operand, const HostBlock& block) const {
  const Matrices& x = host(operand);
  const std::int64_t row = bytes_of(x.type, block.columns);
  return x.page_locked && x.type == plan_.type_of(operand) && row >= kDirectRow &&
         row <= kMostPitch && x.ld <= kMostPitch * 8 / bits_of(x.type) &&
         (block.count == 1 || block.rows * row >= kDirectMatrix);
}

/// Adds chunks of whole rows, or of parts of a row if a row is longer than a staging buffer.
void StreamedProduct::add_chunks(std::vector<Chunk>& chunks, std::vector<std::atomic<int>>& left,
                                 std::int64_t of, HostOperand operand, const HostTile& tile) {
  const HostBlock block = plan_.block(operand, tile);
  const std::size_t before = chunks.size();
  const std::int64_t pitch = plan_.pitch(operand, block.columns), all = block.count * block.rows,
                     most = staging_.chunk_bytes();
  if (is_direct(operand, block)) {
    for (std::int64_t i = 0; i < block.count; ++i)
      chunks.push_back({of, i * block.rows, block.rows, 0, pitch, true});
  } else if (pitch <= most) {
    const std::int64_t rows = most / pitch;
    for (std::int64_t row = 0; row < all; row += rows)
      chunks.push_back({of, row, std::min(rows, all - row), 0, pitch, false});
  } else {
    // 16 bytes hold whole elements of every type.
    const std::int64_t piece = most / 16 * 16;
    for (std::int64_t row = 0; row < all; ++row)
      for (std::int64_t begin = 0; begin < pitch; begin += piece)
        chunks.push_back({of, row, 1, begin, std::min(piece, pitch - begin), false});
  }
  left[static_cast<std::size_t>(of)] = static_cast<int>(chunks.size() - before);
}

std::byte* StreamedProduct::host_row(HostOperand operand, const HostBlock& block,
                                     std::int64_t row) const {
  const Matrices& x = host(operand);
  const std::int64_t element = (block.z + row / block.rows) * x.stride +
                               (block.row + row % block.rows) * x.ld + block.column;
  return x.data + bytes_of(x.type, element);
}

/// Calls move(host address, byte in the buffer, elements) for each row of a chunk. Padding is not
/// part of a row.
template <class Move>
void StreamedProduct::each_row(HostOperand operand, const HostBlock& block, const Chunk& chunk,
                               Move move) const {
  const std::int64_t element = bytes_of(plan_.type_of(operand));
  const std::int64_t first = chunk.begin / element;
  const std::int64_t count = std::min(chunk.bytes / element, block.columns - first);
  if (count <= 0) return;
  for (std::int64_t i = 0; i < chunk.rows; ++i)
    move(host_row(operand, block, chunk.row + i) + first * bytes_of(host(operand).type),
         i * chunk.bytes, count);
}

/// Uploads a chunk. Direct copies are enqueued in order: a thread that copies directly would
/// otherwise get far ahead of the others, so that the first tile waited for blocks of later tiles.
/// Staged copies are small and are enqueued when their buffer is full.
void StreamedProduct::upload(std::int64_t number, int worker) {
  const Chunk& chunk = uploads_[static_cast<std::size_t>(number)];
  const HostCopy& copy = plan_.copies[static_cast<std::size_t>(chunk.of)];
  const HostBlock block =
      plan_.block(copy.operand, plan_.tiles[static_cast<std::size_t>(copy.tile)]);
  const bool is_c = copy.operand == HostOperand::c;
  const DType from = host(copy.operand).type, to = plan_.type_of(copy.operand);
  const std::int64_t pitch = plan_.pitch(copy.operand, block.columns);
  HostStaging::Buffer buffer;
  if (!chunk.direct) {
    buffer = staging_.to_upload(worker);
    buffer.copied->wait();
    each_row(copy.operand, block, chunk, [&](std::byte* row, std::int64_t at, std::int64_t count) {
      if (from == to)
        std::memcpy(buffer.data + at, row, static_cast<std::size_t>(count * bytes_of(to)));
      else
        convert(to, buffer.data + at, from, row, count);
    });
  }
  if (chunk.direct) progress_.wait_for_turn(upload_turns_, number);
  is_c ? progress_.wait_for_download(copy.after) : progress_.wait_for_launch(copy.after);
  Slot& target = slot(copy.operand, copy.slot);
  if (copy.after >= 0) (is_c ? target.downloaded : target.computed)->delay(up_.get());
  std::byte* const place = target.memory + chunk.row * pitch + chunk.begin;
  if (chunk.direct) {
    device_.copy_rows_to_device(place, pitch, host_row(copy.operand, block, chunk.row),
                                host(copy.operand).ld * bytes_of(from),
                                block.columns * bytes_of(from), chunk.rows, up_.get());
  } else {
    device_.copy_to_device(place, buffer.data, chunk.rows * chunk.bytes, up_.get());
    buffer.copied->record(up_.get());
  }
  // Recorded before the next copy is enqueued, because the tile would wait for that copy too.
  const bool is_last = --uploads_left_[static_cast<std::size_t>(chunk.of)] == 0;
  if (is_last) target.copied->record(up_.get());
  progress_.passed(upload_turns_, number);
  if (is_last) progress_.copied(static_cast<std::size_t>(chunk.of));
}

/// Downloads a chunk. Chunks are enqueued in order: a tile that is computed later would delay those
/// before it.
void StreamedProduct::download(std::int64_t number, int worker) {
  const Chunk& chunk = downloads_[static_cast<std::size_t>(number)];
  const HostTile& tile = plan_.tiles[static_cast<std::size_t>(chunk.of)];
  const HostBlock block = plan_.block(HostOperand::c, tile);
  const std::int64_t pitch = plan_.pitch(HostOperand::c, block.columns);
  const DType from = plan_.type_of(HostOperand::c), to = host(HostOperand::c).type;
  progress_.wait_for_turn(download_turns_, number);
  progress_.wait_for_launch(chunk.of);
  Slot& source = slot(HostOperand::c, tile.slots[2]);
  source.computed->delay(down_.get());
  const std::byte* const place = source.memory + chunk.row * pitch + chunk.begin;
  HostStaging::Buffer buffer;
  if (chunk.direct) {
    device_.copy_rows_to_host(host_row(HostOperand::c, block, chunk.row),
                              host(HostOperand::c).ld * bytes_of(to), place, pitch,
                              block.columns * bytes_of(to), chunk.rows, down_.get());
  } else {
    buffer = staging_.to_download(worker);
    device_.copy_to_host(buffer.data, place, chunk.rows * chunk.bytes, down_.get());
    buffer.copied->record(down_.get());
  }
  const bool is_last = --downloads_left_[static_cast<std::size_t>(chunk.of)] == 0;
  if (is_last) source.downloaded->record(down_.get());
  progress_.passed(download_turns_, number);
  if (is_last) progress_.downloaded(static_cast<std::size_t>(chunk.of));
  if (chunk.direct) return;
  buffer.copied->wait();
  each_row(HostOperand::c, block, chunk, [&](std::byte* row, std::int64_t at, std::int64_t count) {
    if (from == to)
      std::memcpy(row, buffer.data + at, static_cast<std::size_t>(count * bytes_of(to)));
    else
      convert(to, row, from, buffer.data + at, count);
  });
}

void StreamedProduct::launch_all() {
  std::int64_t copy = 0;
  for (const HostTile& tile : plan_.tiles) {
    for (; copy < tile.next_copy; ++copy) {
      progress_.wait_for_copy(copy);
      const HostCopy& made = plan_.copies[static_cast<std::size_t>(copy)];
      slot(made.operand, made.slot).copied->delay(compute_.get());
    }
    progress_.wait_for_download(tile.c_after);
    if (tile.c_after >= 0) slot(HostOperand::c, tile.slots[2]).downloaded->delay(compute_.get());
    launch(tile);
    for (const HostOperand operand : {HostOperand::a, HostOperand::b})
      if (plan_.task.problem.k > 0)
        slot(operand, tile.slots[static_cast<std::size_t>(operand)])
            .computed->record(compute_.get());
    if (tile.ends) slot(HostOperand::c, tile.slots[2]).computed->record(compute_.get());
    progress_.launched();
  }
}

void StreamedProduct::launch(const HostTile& tile) {
  Call call;
  const auto place = [&](HostOperand operand, auto*& pointer, std::int64_t& ld,
                         std::int64_t& stride) {
    const HostBlock block = plan_.block(operand, tile);
    pointer = slot(operand, tile.slots[static_cast<std::size_t>(operand)]).memory;
    ld = plan_.pitch(operand, block.columns) / bytes_of(plan_.type_of(operand));
    stride = block.rows * ld;
  };
  place(HostOperand::a, call.a, call.lda, call.stride_a);
  place(HostOperand::b, call.b, call.ldb, call.stride_b);
  place(HostOperand::c, call.c, call.ldc, call.stride_c);
  if (plan_.task.shares_a) call.stride_a = 0;
  if (plan_.task.shares_b) call.stride_b = 0;
  call.alpha = call_.alpha, call.accuracy = call_.accuracy;
  call.beta = tile.begins ? call_.beta : 1;
  call.stream = compute_.get();
  executables_.at(plan_.problem_of(tile))->launch(call, workspace_);
}

void StreamedProduct::run() {
  std::optional<std::jthread> up, down;
  const auto upload_one = [this](std::int64_t i, int worker) { upload(i, worker); };
  const auto download_one = [this](std::int64_t i, int worker) { download(i, worker); };
  // ThreadPool::for_each() ends at the first failure. progress_ records that failure, which ends
  // the loops of the other threads.
  const auto recorded = [this](auto one) {
    return [this, one](std::int64_t i, int worker) {
      bool ended = true;
      progress_.run([&] {
        one(i, worker);
        ended = false;
      });
      if (ended) throw HostProgress::Ended{};
    };
  };
  progress_.run([&] {
    up.emplace([&] {
      progress_.run(
          [&] { staging_.uploaders().for_each(std::ssize(uploads_), recorded(upload_one)); });
    });
    down.emplace([&] {
      progress_.run(
          [&] { staging_.downloaders().for_each(std::ssize(downloads_), recorded(download_one)); });
    });
    launch_all();
  });
  up.reset(), down.reset();
  wait_for_streams();
  if (progress_.failure()) std::rethrow_exception(progress_.failure());
}

/// Waits for all three streams, even after a failure: afterwards nothing is in flight.
void StreamedProduct::wait_for_streams() noexcept {
  for (const OwnedStream* stream : {&up_, &compute_, &down_})
    progress_.run([&] { device_.synchronize(stream->get()); });
}

}  // namespace tilewise
