#pragma once

#include <optional>
#include <string>
#include <vector>

namespace yolk::simulation {

struct chart_point {
  double x = 0.0;
  double y = 0.0;
};

struct chart_line {
  std::string name;
  std::vector<chart_point> points;
};

/// A line chart as inline SVG; colours and fonts come from the page's style (classes line0, line1, …).
struct chart {
  std::string title;
  std::string x_name;
  std::string y_name;
  std::vector<chart_line> lines;
  bool log_x = false;                   ///< for values over several powers of ten; none of them 0
  std::optional<double> top;            ///< of the y axis; absent = the largest value
  std::optional<chart_point> target_x;  ///< an upright line at x; y is not used
};

std::string svg_of(const chart& drawn);
/// With & < > and quotes as entities.
std::string html_text(const std::string& text);
/// Three significant digits, with k, M, G, T above 10,000.
std::string short_number(double value);

}  // namespace yolk::simulation
