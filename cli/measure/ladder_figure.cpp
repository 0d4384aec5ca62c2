#include <algorithm>
#include <sstream>

#include "cli/common/gnuplot.hpp"
#include "cli/measure/ladder_report.hpp"

namespace tilewise::cli {
namespace {

/// In a data block double quotes delimit a text, and cannot be escaped.
std::string datum(const std::string& text) {
  std::string made = text;
  for (char& c : made)
    if (c == '"' || c == '\n') c = ' ';
  return '"' + made + '"';
}

std::string three_digits(double value) {
  return format_number(value, value < 10 ? 2 : value < 100 ? 1 : 0);
}

}  // namespace

std::string figure_script(const Ladder& ladder, const std::string& svg) {
  const RateUnit unit = rate_unit(ladder);
  const double peak = unit.scaled(peak_tflops(ladder));
  std::ostringstream data, script;
  int bars = 0;
  double top = peak;
  for (const Rung& rung : ladder.rungs)
    if (const double rate = unit.scaled(tflops_of(ladder, rung)); rate > 0) {
      top = std::max(top, rate);
      data << bars++ << ' ' << rate << ' ' << datum(rung.name) << ' ' << datum(three_digits(rate))
           << '\n';
    }
  script << "set terminal svg size 960,540 font 'sans-serif,14' background 'white' noenhanced\n"
         << "set output " << gnuplot_quoted(svg) << "\n"
         << "set title "
         << gnuplot_quoted(std::string(to_string(ladder.problem.layout)) + " " +
                           size_text(ladder.problem) + " f32 on " + ladder.device.name)
         << "\n$rungs << END\n"
         << data.str() << "END\n"
         << "set style fill solid 0.8 noborder\nset boxwidth 0.7\nunset key\n"
         << "set ylabel '" << unit.name()
         << "'\nset grid ytics lt 1 lc rgb '#dddddd'\nset border 3\n"
         << "set tics nomirror\nset xtics rotate by -30\n"
         << "set xrange [-0.6:" << bars - 0.4
         << "]\nset yrange [0:*]\nset offsets 0,0,graph 0.08,0\n";
  if (peak > 0)
    script << "set arrow 1 from graph 0, first " << peak << " to graph 1, first " << peak
           << " nohead dt 2 lw 2 lc rgb '#aa3333'\n"
           << "set label 1 'f32 peak " << three_digits(peak) << "' at graph 0.01, first " << peak
           << " offset 0,0.6 tc rgb '#aa3333'\nset yrange [0:" << 1.12 * top << "]\n";
  script << "plot $rungs using 1:2:xtic(3) with boxes lc rgb '#3366aa', "
            "$rungs using 1:2:4 with labels offset 0,0.7\n";
  return script.str();
}

}  // namespace tilewise::cli
