package dev.starling.tensor.profile;

import dev.starling.tensor.profile.Profile.Step;
import dev.starling.tensor.profile.Profile.Total;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;

/** Renders a {@link Profile} as HTML. */
final class ProfilePage {
    private static final int WIDTH = 1100;
    private static final int HEIGHT = 220;
    private static final int BINS = 220;
    /** Number of operations that the close-up draws individually. */
    private static final int CLOSE_UP = 300;
    private static final int ROWS = 40;
    private static final String[] COLOURS = {"#3b76b0", "#e28a2b", "#4c9a4c", "#c34a46", "#8467a8", "#86635a",
        "#d07ab1", "#3fa7b5"};
    private static final String OTHERS = "#b9b9b9";

    private final Profile profile;
    private final List<Total> operations;
    /** The operations with a colour of their own. */
    private final List<String> coloured = new ArrayList<>();
    private final long nanos;
    private final StringBuilder out = new StringBuilder();

    ProfilePage(Profile profile) {
        this.profile = profile;
        operations = profile.operations();
        nanos = Math.max(1, profile.duration().toNanos());
        for (Total t : operations) {
            if (coloured.size() < COLOURS.length && !coloured.contains(t.name())) {
                coloured.add(t.name());
            }
        }
    }

    String html() {
        add("<!DOCTYPE html>%n<html lang=\"en\"><meta charset=\"utf-8\"><title>Starling: profile</title>%n<style>"
                + "body{font:14px sans-serif;margin:2em;max-width:%dpx;color:#222}"
                + "td,th{padding:2px 12px;text-align:right}td:first-child,th:first-child{text-align:left}"
                + "table{border-collapse:collapse}tr:nth-child(even){background:#f4f4f4}"
                + "svg{background:#fafafa;border:1px solid #ddd}text{font-size:11px}.key{margin-right:1.2em}"
                + "</style>%n<h1>Profile</h1>%n", WIDTH);
        long busy = busy();
        add("<p>%,d operations in %s; they kept the host busy for %s.</p>%n", profile.steps().size(), time(nanos),
                time(busy));
        overview();
        closeUp();
        profile.highWater().forEach(this::memory);
        table("Operations", "Operation", operations, busy);
        table("Waits for devices", "Reason", profile.waits(), 0);
        requests();
        return out.append("</html>\n").toString();
    }

    /** Returns the time in which at least one operation ran: an operation may call others. */
    private long busy() {
        long busy = 0;
        long end = 0;
        for (Step s : profile.steps()) {
            busy += Math.max(0, s.start() + s.nanos() - Math.max(end, s.start()));
            end = Math.max(end, s.start() + s.nanos());
        }
        return busy;
    }

    private void add(String format, Object... values) {
        out.append(String.format(Locale.ROOT, format, values));
    }

    private static String escape(String text) {
        return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;");
    }

    static String time(long nanos) {
        return nanos < 1_000_000 ? String.format(Locale.ROOT, "%.1f µs", nanos / 1e3)
                : nanos < 1_000_000_000 ? String.format(Locale.ROOT, "%.2f ms", nanos / 1e6)
                : String.format(Locale.ROOT, "%.2f s", nanos / 1e9);
    }

    static String bytes(long bytes) {
        return bytes < 1 << 20 ? String.format(Locale.ROOT, "%.1f KiB", bytes / 1024.0)
                : String.format(Locale.ROOT, "%,.1f MiB", bytes / 1048576.0);
    }

    private String colour(String operation) {
        int i = coloured.indexOf(operation);
        return i < 0 ? OTHERS : COLOURS[i];
    }

    /** Draws columns of equal time, each as high as the host's time in it, by operation. */
    private void overview() {
        double[][] parts = new double[BINS][coloured.size() + 1];
        double width = (double) nanos / BINS;
        for (Step s : profile.steps()) {
            int part = coloured.indexOf(s.name());
            double end = s.start() + s.nanos();
            for (int b = (int) (s.start() / width); b < BINS && b * width < end; b++) {
                parts[b][part < 0 ? coloured.size() : part] += Math.min(end, (b + 1) * width)
                        - Math.max(s.start(), b * width);
            }
        }
        double peak = width;
        for (double[] bin : parts) {
            double sum = 0;
            for (double part : bin) {
                sum += part;
            }
            peak = Math.max(peak, sum);
        }
        add("<h2>Operations over time</h2>%n<p>");
        coloured.forEach(name -> add("<span class=\"key\"><span style=\"color:%s\">■</span> %s</span>", colour(name),
                escape(name)));
        add("<span class=\"key\"><span style=\"color:%s\">■</span> others</span></p>%n", OTHERS);
        begin();
        for (int b = 0; b < BINS; b++) {
            double top = HEIGHT;
            for (int p = 0; p < parts[b].length; p++) {
                double height = parts[b][p] / peak * (HEIGHT - 20);
                if (height > 0.05) {
                    top -= height;
                    add("<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\"/>",
                            (double) b * WIDTH / BINS, top, (double) WIDTH / BINS, height,
                            p < coloured.size() ? COLOURS[p] : OTHERS);
                }
            }
        }
        end(0, nanos);
    }

    /** Draws the operations in the middle of the recording individually. */
    private void closeUp() {
        List<Step> steps = profile.steps();
        if (steps.isEmpty()) {
            return;
        }
        int from = Math.max(0, steps.size() / 2 - CLOSE_UP / 2);
        List<Step> some = steps.subList(from, Math.min(steps.size(), from + CLOSE_UP));
        long first = some.getFirst().start();
        long last = some.stream().mapToLong(s -> s.start() + s.nanos()).max().orElse(first);
        double scale = (double) WIDTH / Math.max(1, last - first);
        add("<h2>Close up</h2>%n<p>%d operations, starting at %s; point at one for its details.</p>%n", some.size(),
                time(first));
        begin();
        for (Step s : some) {
            add("<rect x=\"%.2f\" y=\"40\" width=\"%.2f\" height=\"%d\" fill=\"%s\"><title>%s → %s, %s on %s</title>"
                    + "</rect>", (s.start() - first) * scale, Math.max(0.3, s.nanos() * scale), HEIGHT - 80,
                    colour(s.name()), escape(s.name()), escape(s.output()), time(s.nanos()), s.device());
        }
        end(first, last);
    }

    private void memory(String device, long highWater) {
        List<Step> steps = profile.steps().stream().filter(s -> s.device().equals(device)).toList();
        long peak = Math.max(1, Math.max(highWater,
                steps.stream().mapToLong(s -> s.live() + s.cached()).max().orElse(0)));
        add("<h2>Memory of %s</h2>%n<p>High-water mark <b>%s</b>. <span style=\"color:%s\">■</span> in use, "
                + "<span style=\"color:%s\">■</span> in use and cached, dashed: high-water mark.</p>%n", device,
                bytes(highWater), COLOURS[0], OTHERS);
        begin();
        double scale = (HEIGHT - 20.0) / peak;
        curve(steps, scale, true, OTHERS);
        curve(steps, scale, false, COLOURS[0]);
        double y = HEIGHT - highWater * scale;
        add("<line x1=\"0\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#c34a46\" stroke-dasharray=\"6 4\"/>"
                + "<text x=\"4\" y=\"%.1f\">%s</text>", WIDTH, y, y, Math.max(12, y - 4), bytes(highWater));
        end(0, nanos);
    }

    /** Draws the maximum of each of many columns of equal time, so that no short peak is lost. */
    private void curve(List<Step> steps, double scale, boolean withCache, String colour) {
        add("<polyline fill=\"none\" stroke=\"%s\" points=\"", colour);
        int i = 0;
        while (i < steps.size()) {
            long column = steps.get(i).start() * WIDTH / nanos;
            long peak = 0;
            for (; i < steps.size() && steps.get(i).start() * WIDTH / nanos == column; i++) {
                peak = Math.max(peak, steps.get(i).live() + (withCache ? steps.get(i).cached() : 0));
            }
            add("%d,%.1f ", column, HEIGHT - peak * scale);
        }
        add("\"/>");
    }

    private void begin() {
        add("<svg viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\">", WIDTH, HEIGHT + 20, WIDTH, HEIGHT + 20);
    }

    private void end(long from, long to) {
        for (int i = 0; i <= 4; i++) {
            add("<text x=\"%d\" y=\"%d\" text-anchor=\"%s\">%s</text>", i * WIDTH / 4, HEIGHT + 14,
                    i == 0 ? "start" : i == 4 ? "end" : "middle", time(from + (to - from) * i / 4));
        }
        add("</svg>%n");
    }

    private void table(String title, String first, List<Total> totals, long whole) {
        if (totals.isEmpty()) {
            return;
        }
        add("<h2>%s</h2>%n<table><tr><th>%s<th>Device<th>Calls<th>Total<th>Mean<th>%s</tr>%n", title, first,
                whole > 0 ? "Share" : "");
        for (Total t : totals.subList(0, Math.min(ROWS, totals.size()))) {
            add("<tr><td>%s<td>%s<td>%d<td>%s<td>%s<td>%s</tr>%n", escape(t.name()), t.device(), t.calls(),
                    time(t.amount()), time(t.amount() / t.calls()),
                    whole > 0 ? String.format(Locale.ROOT, "%.1f %%", 100.0 * t.amount() / whole) : "");
        }
        add("</table>%n");
        if (totals.size() > ROWS) {
            add("<p>and %d more</p>%n", totals.size() - ROWS);
        }
    }

    private void requests() {
        List<Total> requests = profile.requests();
        if (!requests.isEmpty()) {
            add("<h2>Memory requested from the system</h2>%n<table><tr><th>Action<th>Device<th>Calls<th>Bytes</tr>%n");
            requests.forEach(t -> add("<tr><td>%s<td>%s<td>%d<td>%s</tr>%n", escape(t.name()), t.device(), t.calls(),
                    bytes(t.amount())));
            add("</table>%n");
        }
    }
}
