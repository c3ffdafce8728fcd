package dev.starling.nn.train;

import dev.starling.nn.chart.Canvas;
import dev.starling.nn.chart.LineChart;
import dev.starling.nn.chart.Picture;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * Draws the course of a run after each epoch: a panel for the loss and one for each metric, with the training batches
 * and the held-out data as lines over epochs. The file's name ends in {@code .svg} or {@code .png}. Needs no display.
 *
 * <pre>{@code
 * Trainer.of(model, loss, optimizer).data(train).heldOut(test).listeners(LearningCurve.in(Path.of("curve.svg")))...
 * }</pre>
 *
 * <p>With several processes, rank 0 draws; a process that takes its place draws all epochs since it joined, if it has
 * this listener. The picture of a run that resumes begins with its own first epoch. A file that cannot be written ends
 * the run with a {@link dev.starling.nn.data.DataException}.
 */
public final class LearningCurve implements TrainingListener {
    private static final int PANEL_WIDTH = 560;
    private static final int PANEL_HEIGHT = 400;
    private static final String TRAINING = "#5b8db8";
    private static final String HELD_OUT = "#d1495b";
    private static final String LOSS = "loss";

    private final Path file;
    private String title = "";
    /** The reports by epoch; a later report on an epoch replaces an earlier one. */
    private final Map<Integer, EpochReport> reports = new TreeMap<>();

    private LearningCurve(Path file) {
        this.file = file;
    }

    /** Returns a listener that draws in a file. */
    public static LearningCurve in(Path file) {
        return new LearningCurve(file);
    }

    /** Sets the text above the picture, for example what is trained. */
    public LearningCurve title(String text) {
        title = text;
        return this;
    }

    /** Adds an epoch, for callers that draw without a run: of a {@link History}, for example. */
    public LearningCurve add(EpochReport report) {
        reports.put(report.epoch(), report);
        return this;
    }

    /**
     * Draws the epochs so far.
     *
     * @throws dev.starling.nn.data.DataException if the file cannot be written, its name ends otherwise, or it is an
     *     image and the JDK lacks what it needs to draw text
     */
    public void draw() {
        List<String> panels = new ArrayList<>(List.of(LOSS));
        for (EpochReport report : reports.values()) {
            report.training().metrics().keySet().stream().filter(name -> !panels.contains(name)).forEach(panels::add);
        }
        Picture.write(file, panels.size() * PANEL_WIDTH, PANEL_HEIGHT, canvas -> {
            canvas.box(0, 0, panels.size() * PANEL_WIDTH, PANEL_HEIGHT, "#ffffff");
            for (int i = 0; i < panels.size(); i++) {
                panel(panels.get(i), canvas, i * PANEL_WIDTH);
            }
        });
    }

    private void panel(String name, Canvas canvas, int left) {
        boolean percent = reports.values().stream().map(report -> report.training().text().get(name))
                .anyMatch(text -> text != null && text.endsWith("%"));
        LineChart chart = new LineChart((title.isEmpty() ? "" : title + " · ") + name + (percent ? ", %" : ""),
                "epoch", false);
        List<EpochReport> all = List.copyOf(reports.values());
        double[] x = all.stream().mapToDouble(EpochReport::epoch).toArray();
        double factor = percent ? 100 : 1;
        chart.line("training", TRAINING, false, x, all.stream().mapToDouble(report ->
                factor * value(report.training(), name)).toArray());
        chart.line("held-out", HELD_OUT, true, x, all.stream().mapToDouble(report ->
                factor * report.heldOut().map(scores -> value(scores, name)).orElse(Double.NaN)).toArray());
        chart.draw(canvas, left, 0, PANEL_WIDTH, PANEL_HEIGHT);
    }

    private static double value(Scores scores, String name) {
        return name.equals(LOSS) ? scores.loss() : scores.metrics().getOrDefault(name, Double.NaN);
    }

    @Override
    public void epochEnded(Progress progress, EpochReport report) {
        add(report);
        if (progress.rank() == 0) {
            draw();
        }
    }

    @Override
    public String toString() {
        return "learning curve in " + file;
    }
}
