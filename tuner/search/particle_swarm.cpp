#include "tuner/search/guided.hpp"

namespace tilewise {
namespace {

constexpr std::size_t kParticles = 16;
// Weights of a particle's velocity, and of its way to its own best and to the best of all.
constexpr double kInertia = 0.7, kOwn = 1.4, kCommon = 1.4;

/// Particle swarm optimisation (Kennedy and Eberhart, 1995) on the ranks of values, within a
/// template. A particle of another template than the best's follows its own best alone.
class ParticleSwarm : public Guided {
 public:
  ParticleSwarm(const SearchSpace& space, std::uint64_t seed) : Guided(space, seed, kParticles) {}

 private:
  struct Particle {
    Candidate best;
    double microseconds;
    std::vector<double> position, velocity;
  };

  std::optional<Candidate> propose() override {
    if (particles_.empty()) return std::nullopt;
    const std::size_t turn = turn_++ % particles_.size();
    Particle& particle = particles_[turn];
    const Particle& leader = fastest();
    const bool follows = leader.best.kernel_template == particle.best.kernel_template;
    const std::vector<double> own = ranks(particle.best), common = ranks(leader.best);
    for (std::size_t i = 0; i < own.size(); ++i) {
      const double x = particle.position[i];
      double& velocity = particle.velocity[i];
      velocity = kInertia * velocity + kOwn * uniform() * (own[i] - x);
      if (follows) velocity += kCommon * uniform() * (common[i] - x);
      particle.position[i] += velocity;
    }
    auto candidate =
        valid_towards(nearest(particle.best.kernel_template, particle.position), particle.best);
    if (!candidate) candidate = neighbour(particle.best);  // it has come to rest
    if (candidate) particle_of_[*candidate] = turn;
    return candidate;
  }

  void learn(const Candidate& candidate, double microseconds) override {
    const auto found = particle_of_.find(candidate);
    if (found == particle_of_.end()) {
      if (particles_.size() < kParticles) {
        const std::vector<double> position = ranks(candidate);
        particles_.push_back(
            {candidate, microseconds, position, std::vector<double>(position.size())});
      }
      return;
    }
    Particle& particle = particles_[found->second];
    particle_of_.erase(found);
    if (microseconds >= particle.microseconds) return;
    particle.best = candidate;
    particle.microseconds = microseconds;
  }

  const Particle& fastest() const {
    const Particle* fastest = &particles_.front();
    for (const Particle& particle : particles_)
      if (particle.microseconds < fastest->microseconds) fastest = &particle;
    return *fastest;
  }

  std::vector<Particle> particles_;
  std::map<Candidate, std::size_t> particle_of_;  // the one that proposed a candidate
  std::size_t turn_ = 0;
};

}  // namespace

std::unique_ptr<Strategy> make_particle_swarm(const SearchSpace& space, std::uint64_t seed, bool,
                                              const Predict&) {
  return std::make_unique<ParticleSwarm>(space, seed);
}

}  // namespace tilewise
