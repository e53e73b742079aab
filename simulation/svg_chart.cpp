#include "simulation/svg_chart.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace yolk::simulation {

namespace {

constexpr double width = 560, height = 260;
constexpr double left = 52, right = 12, top = 30, bottom = 40;

std::string fixed(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", value);
  return text;
}

std::string element(const std::string& name, const std::string& attributes, const std::string& content = "") {
  return "<" + name + " " + attributes + (content.empty() ? "/>" : ">" + content + "</" + name + ">") + "\n";
}

/// From values to places on one axis.
struct axis {
  double least = 0.0;
  double most = 1.0;
  bool log = false;
  double begin = 0.0;  ///< in the drawing
  double end = 0.0;

  [[nodiscard]] double place(double value) const {
    const double part = log ? (std::log(std::clamp(value, least, most)) - std::log(least)) /
                                  (std::log(most) - std::log(least))
                            : (std::clamp(value, least, most) - least) / (most - least);
    return begin + part * (end - begin);
  }

  [[nodiscard]] std::vector<double> ticks() const {
    std::vector<double> found;
    if (log) {
      for (double power = std::pow(10.0, std::floor(std::log10(least))); power <= most * 1.001; power *= 10)
        for (const double digit : {1.0, 2.0, 5.0})
          if (const double tick = digit * power; tick >= least * 0.999 && tick <= most * 1.001)
            found.push_back(tick);
      return found;
    }
    const double rough = (most - least) / 5;
    const double power = std::pow(10.0, std::floor(std::log10(rough)));
    const double digit = rough / power;
    const double step = power * (digit < 1.5 ? 1 : digit < 3.5 ? 2 : digit < 7.5 ? 5 : 10);
    for (double tick = std::ceil(least / step) * step; tick <= most * 1.0001; tick += step)
      found.push_back(std::abs(tick) < step * 1e-9 ? 0.0 : tick);
    return found;
  }
};

axis x_axis(const chart& drawn) {
  double least = 0.0, most = 0.0;
  bool first = true;
  for (const auto& line : drawn.lines)
    for (const auto& point : line.points) {
      least = first ? point.x : std::min(least, point.x);
      most = first ? point.x : std::max(most, point.x);
      first = false;
    }
  if (drawn.log_x) {
    least = std::max(least, 1e-6);
    most = std::max(most, least * 10);
  } else if (most <= least) {
    most = least + 1;
  }
  return {least, most, drawn.log_x, left, width - right};
}

axis y_axis(const chart& drawn) {
  double most = 0.0;
  for (const auto& line : drawn.lines)
    for (const auto& point : line.points) most = std::max(most, point.y);
  most = drawn.top.value_or(most * 1.05);
  return {0.0, most > 0 ? most : 1.0, false, height - bottom, top};
}

std::string grid(const axis& x, const axis& y) {
  std::string all;
  for (const double tick : x.ticks()) {
    const auto at = fixed(x.place(tick));
    all += element("line", "class='grid' x1='" + at + "' x2='" + at + "' y1='" + fixed(top) + "' y2='" +
                               fixed(height - bottom) + "'");
    all += element("text",
                   "class='tick' text-anchor='middle' x='" + at + "' y='" + fixed(height - bottom + 14) + "'",
                   short_number(tick));
  }
  for (const double tick : y.ticks()) {
    const auto at = fixed(y.place(tick));
    all += element("line", "class='grid' y1='" + at + "' y2='" + at + "' x1='" + fixed(left) + "' x2='" +
                               fixed(width - right) + "'");
    all += element(
        "text",
        "class='tick' text-anchor='end' x='" + fixed(left - 5) + "' y='" + fixed(y.place(tick) + 3.5) + "'",
        short_number(tick));
  }
  return all;
}

std::string legend(const chart& drawn) {
  std::string all;
  double at = width - right;
  for (std::size_t i = drawn.lines.size(); i-- > 0 && drawn.lines.size() > 1;) {
    const auto& name = drawn.lines[i].name;
    at -= 7.0 * static_cast<double>(name.size()) + 6;
    all += element("text", "class='legend' x='" + fixed(at) + "' y='18'", html_text(name));
    all += element("line", "class='line line" + std::to_string(i) + "' x1='" + fixed(at - 18) + "' x2='" +
                               fixed(at - 4) + "' y1='14' y2='14'");
    at -= 28;
  }
  return all;
}

}  // namespace

std::string html_text(const std::string& text) {
  std::string escaped;
  for (const char c : text) switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      case '\'':
        escaped += "&#39;";
        break;
      default:
        escaped += c;
    }
  return escaped;
}

std::string short_number(double value) {
  const char* unit = "";
  for (const char* next : {"k", "M", "G", "T", "P"}) {
    if (std::abs(value) < 9999.5) break;
    value /= 1000;
    unit = next;
  }
  char text[32];
  std::snprintf(text, sizeof text, std::abs(value) >= 999.5 ? "%.0f%s" : "%.3g%s", value, unit);
  return text;
}

std::string svg_of(const chart& drawn) {
  const axis x = x_axis(drawn);
  const axis y = y_axis(drawn);
  std::string all = "<svg viewBox='0 0 " + fixed(width) + " " + fixed(height) + "' role='img' aria-label='" +
                    html_text(drawn.title) + "'>\n";
  all += element("text", "class='title' x='" + fixed(left) + "' y='18'", html_text(drawn.title)) + grid(x, y);
  if (drawn.target_x) {
    const auto at = fixed(x.place(drawn.target_x->x));
    all += element("line", "class='target' x1='" + at + "' x2='" + at + "' y1='" + fixed(top) + "' y2='" +
                               fixed(height - bottom) + "'");
  }
  for (std::size_t i = 0; i < drawn.lines.size(); ++i) {
    std::string points;
    for (const auto& point : drawn.lines[i].points)
      points += fixed(x.place(point.x)) + "," + fixed(y.place(point.y)) + " ";
    if (!points.empty())
      all += element("polyline", "class='line line" + std::to_string(i) + "' points='" + points + "'");
  }
  all += legend(drawn);
  all += element("text",
                 "class='name' text-anchor='middle' x='" + fixed((left + width - right) / 2) + "' y='" +
                     fixed(height - 8) + "'",
                 html_text(drawn.x_name));
  all += element("text",
                 "class='name' text-anchor='middle' transform='translate(13 " +
                     fixed((top + height - bottom) / 2) + ") rotate(-90)'",
                 html_text(drawn.y_name));
  return all + "</svg>\n";
}

}  // namespace yolk::simulation
