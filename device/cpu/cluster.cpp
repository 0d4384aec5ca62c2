// Clusters, the asynchronous products of warpgroups, and tiles stored by TMA: parts of BlockRunner.
#include <algorithm>
#include <cstring>

#include "device/cpu/block_runner.hpp"

namespace tilewise::cpu {

void BlockRunner::cluster_barrier(Site site) {
  Fiber& me = *current_;
  const BlockState& block = block_of(number_of(me));
  const auto threads = count_ * static_cast<unsigned>(blocks_.size());
  if (in_cluster_ == 0) cluster_site_ = site, cluster_thread_ = number_of(me);
  if (live_ != threads || block.arrived > 0 || !same(site, cluster_site_))
    fail([&] {
      return name_of(number_of(me)) + " waits at the cluster_barrier at " + text(site) +
             ", which not all threads of the cluster reach";
    });
  me.file = site.file, me.line = site.line;
  idle_yields_ = 0;
  if (++in_cluster_ == threads) {
    in_cluster_ = 0;
    clustered_ = true;
    for (unsigned i = 0; i < threads; ++i) fibers_[i].ready_at = 0;
  } else {
    me.ready_at = kForCluster;
    run_others();
  }
}

char* BlockRunner::shared_of(unsigned block, Site site) {
  if (block >= blocks_.size()) fault(site, "the cluster has no such block");
  if (!clustered_) fault(site, "reaches into a block of the cluster before a cluster_barrier()");
  if (blocks_[block].live == 0) fault(site, "reaches into a block of the cluster that has ended");
  return static_cast<char*>(blocks_[block].shared);
}

void BlockRunner::arrival_start(const void* barrier, Site site) {
  arrivals_.push_back({barrier, site});
}

bool BlockRunner::arrival_next(const void* barrier, Site& site) {
  const auto found = std::find_if(arrivals_.begin(), arrivals_.end(),
                                  [&](const Arrival& a) { return a.barrier == barrier; });
  if (found == arrivals_.end()) return false;
  site = found->site;
  arrivals_.erase(found);
  idle_yields_ = 0;
  return true;
}

const Site* BlockRunner::late_arrival(const BlockState& block) const {
  const auto* const begin = static_cast<const char*>(block.shared);
  for (const Arrival& arrival : arrivals_) {
    const auto* const at = static_cast<const char*>(arrival.barrier);
    if (at >= begin && at < begin + block.shared_bytes) return &arrival.site;
  }
  return nullptr;
}

void BlockRunner::product_start(const AsyncProduct& product) {
  Products& mine = products_[number_of(*current_)];
  const bool in_flight = std::any_of(mine.sums.begin(), mine.sums.end(),
                                     [&](const auto& sums) { return sums.at == product.sums; });
  if (!in_flight) {
    if (!mine.fenced) fault(product.site, "a product without wgmma_fence() since its sums changed");
    const auto* const values = static_cast<const std::byte*>(product.sums);
    mine.sums.push_back({product.sums, {values, values + product.bytes}});
    // A NaN; 0x7f7f7f7f would be a number.
    std::memset(product.sums, 0xff, product.bytes);
  }
  mine.pending.push_back({product, mine.groups});
}

/// The first lane that closes a group releases it: all lanes have issued the group's products, and
/// none a product of the next group.
void BlockRunner::products_commit() {
  const unsigned thread = number_of(*current_);
  Products& mine = products_[thread];
  int& released = products_[thread / kWarp * kWarp].released;
  if (released == mine.groups) {
    ++released;
    checks_.async_proxy(true);
    checks_.edge(products_place(thread, mine.groups), true);
    checks_.async_proxy(false);
  }
  ++mine.groups;
}

/// Computes this thread's products, oldest first, except those of the last `pending` groups.
void BlockRunner::products_wait(int pending) {
  Products& mine = products_[number_of(*current_)];
  const auto values_of = [&](const void* at) {
    return std::find_if(mine.sums.begin(), mine.sums.end(),
                        [&](const auto& sums) { return sums.at == at; });
  };
  std::size_t done = 0;
  for (; done < mine.pending.size() && mine.pending[done].group < mine.groups - pending; ++done) {
    const auto& [product, group] = mine.pending[done];
    product.add(product, values_of(product.sums)->values.data());
    if (done == 0 || mine.pending[done - 1].group != group)
      checks_.edge(products_place(number_of(*current_), group), false);
  }
  mine.pending.erase(mine.pending.begin(),
                     mine.pending.begin() + static_cast<std::ptrdiff_t>(done));
  std::erase_if(mine.sums, [&](const Products::Sums& sums) {
    for (const auto& pending_one : mine.pending)
      if (pending_one.product.sums == sums.at) return false;
    std::memcpy(sums.at, sums.values.data(), sums.values.size());
    mine.fenced = false;
    return true;
  });
}

/// Non-empty for a product in flight at the end: a GPU may still read its operands.
std::string BlockRunner::unfinished_product() const {
  for (unsigned i = 0; i < count_ * blocks_.size(); ++i)
    if (!products_[i].pending.empty())
      return name_of(i) + " ends without waiting for the product at " +
             text(products_[i].pending.front().product.site);
  return "";
}

void BlockRunner::store_start(const TileStore& store) {
  Stores& mine = stores_[number_of(*current_)];
  mine.pending.push_back({store, mine.groups});
  checks_.edge(checks_.place_of(number_of(*current_), AsyncGroup::stores, mine.groups), true);
}

bool BlockRunner::store_next(int pending, TileStore& store) {
  Stores& mine = stores_[number_of(*current_)];
  if (mine.pending.empty() || mine.pending.front().group >= mine.groups - pending) return false;
  store = mine.pending.front().store;
  checks_.edge(
      checks_.place_of(number_of(*current_), AsyncGroup::stores, mine.pending.front().group),
      false);
  mine.pending.erase(mine.pending.begin());
  return true;
}

/// Non-empty for a store in flight at the end: a GPU may still read the block's shared memory.
std::string BlockRunner::unfinished_store() const {
  for (unsigned i = 0; i < count_ * blocks_.size(); ++i)
    if (!stores_[i].pending.empty())
      return name_of(i) + " ends without waiting for the tile that store_tile copies at " +
             text(stores_[i].pending.front().store.site);
  return "";
}

}  // namespace tilewise::cpu
