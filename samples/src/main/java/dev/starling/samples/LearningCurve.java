package dev.starling.samples;

import dev.starling.nn.data.DataException;
import java.awt.BasicStroke;
import java.awt.Color;
import java.awt.Font;
import java.awt.Graphics2D;
import java.awt.RenderingHints;
import java.awt.image.BufferedImage;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import javax.imageio.ImageIO;
import org.knowm.xchart.XYChart;
import org.knowm.xchart.XYChartBuilder;
import org.knowm.xchart.XYSeries;
import org.knowm.xchart.style.Styler;
import org.knowm.xchart.style.markers.SeriesMarkers;

/**
 * The course of a training as an image: loss and accuracy by epoch, on the training batches and on held-out data. Any
 * number of points may be added; many points are averaged to a few. Needs no display.
 */
public final class LearningCurve {
    private static final int PANEL_WIDTH = 560;
    private static final int PANEL_HEIGHT = 400;
    private static final int PIXELS_PER_UNIT = 2;
    private static final int MAX_POINTS = 200;
    private static final Color TRAIN = new Color(0x9db8d2);
    private static final Color HELD_OUT = new Color(0xd1495b);
    private static final Color INK = new Color(0x333333);
    private static final Color GRID = new Color(0xe6e6e6);

    private record Point(double epoch, double loss, double accuracy) { }

    private final String title;
    private final List<Point> train = new ArrayList<>();
    private final List<Point> heldOut = new ArrayList<>();

    /**
     * Creates a curve without points.
     *
     * @param title what was trained; printed above the image
     */
    public LearningCurve(String title) {
        this.title = title;
    }

    /**
     * Adds a point of the training curve. A point whose loss is not finite is ignored.
     *
     * @param epoch number of passes over the data so far, including a fraction, from 0
     * @param loss mean loss of the batch or batches
     * @param accuracy fraction of correct answers, 0 to 1
     */
    public void train(double epoch, double loss, double accuracy) {
        add(train, new Point(epoch, loss, accuracy));
    }

    /**
     * Adds a point of the curve on held-out data. A point whose loss is not finite is ignored.
     *
     * @param epoch number of passes over the training data so far
     * @param loss mean loss over the held-out data
     * @param accuracy fraction of correct answers, 0 to 1
     */
    public void heldOut(double epoch, double loss, double accuracy) {
        add(heldOut, new Point(epoch, loss, accuracy));
    }

    private static void add(List<Point> points, Point point) {
        if (Double.isFinite(point.loss)) {
            points.add(point);
        }
    }

    /**
     * Writes the image.
     *
     * @param png the file; its directory is created, an existing file is replaced
     * @throws DataException if the file cannot be written, or the machine lacks what the JDK needs to draw text
     */
    public void write(Path png) {
        try {
            Files.createDirectories(png.toAbsolutePath().getParent());
            if (!ImageIO.write(draw(), "png", png.toFile())) {
                throw new IOException("no PNG encoder in this JDK");
            }
        } catch (LinkageError | InternalError e) {
            throw new DataException(png, "a JDK that can draw text", e.toString(),
                "install fontconfig, freetype and a font", e);
        } catch (IOException e) {
            throw new DataException(png, "a writable file for the learning curve", e.toString(),
                "choose another directory or free some disk space", e);
        }
    }

    private BufferedImage draw() {
        int width = 2 * PANEL_WIDTH;
        BufferedImage image = new BufferedImage(width * PIXELS_PER_UNIT, PANEL_HEIGHT * PIXELS_PER_UNIT,
            BufferedImage.TYPE_INT_RGB);
        Graphics2D graphics = image.createGraphics();
        graphics.setRenderingHint(RenderingHints.KEY_ANTIALIASING, RenderingHints.VALUE_ANTIALIAS_ON);
        graphics.setRenderingHint(RenderingHints.KEY_TEXT_ANTIALIASING, RenderingHints.VALUE_TEXT_ANTIALIAS_ON);
        graphics.scale(PIXELS_PER_UNIT, PIXELS_PER_UNIT);
        chart(title + " · loss", false).paint(graphics, PANEL_WIDTH, PANEL_HEIGHT);
        graphics.translate(PANEL_WIDTH, 0);
        chart(title + " · accuracy, %", true).paint(graphics, PANEL_WIDTH, PANEL_HEIGHT);
        graphics.dispose();
        return image;
    }

    private XYChart chart(String heading, boolean accuracy) {
        XYChart chart = new XYChartBuilder().width(PANEL_WIDTH).height(PANEL_HEIGHT).title(heading)
            .xAxisTitle("epoch").build();
        chart.getStyler().setChartBackgroundColor(Color.WHITE).setPlotBackgroundColor(Color.WHITE)
            .setPlotBorderVisible(false).setChartFontColor(INK)
            .setChartTitleBoxVisible(false).setChartTitleFont(new Font(Font.SANS_SERIF, Font.BOLD, 15))
            .setLegendPosition(accuracy ? Styler.LegendPosition.InsideSE : Styler.LegendPosition.InsideNE)
            .setLegendBorderColor(Color.WHITE).setLegendFont(new Font(Font.SANS_SERIF, Font.PLAIN, 13));
        chart.getStyler().setPlotGridLinesColor(GRID).setPlotGridLinesStroke(new BasicStroke(1))
            .setAxisTickLabelsColor(INK).setAxisTickLabelsFont(new Font(Font.SANS_SERIF, Font.PLAIN, 12))
            .setAxisTitleFont(new Font(Font.SANS_SERIF, Font.PLAIN, 13)).setAxisTicksLineVisible(false)
            .setXAxisMin(0.0);
        if (accuracy) {
            chart.getStyler().setYAxisMax(100.0);
        } else {
            chart.getStyler().setYAxisMin(0.0);
        }
        List<Point> trained = average(train);
        add(chart, "training", trained, accuracy, TRAIN, 1.6f, trained.size() == 1);
        add(chart, "held-out", heldOut, accuracy, HELD_OUT, 2.2f, true);
        return chart;
    }

    private static void add(XYChart chart, String name, List<Point> points, boolean accuracy, Color color, float width,
        boolean marked) {
        if (points.isEmpty()) {
            return;
        }
        double[] x = points.stream().mapToDouble(Point::epoch).toArray();
        double[] y = points.stream().mapToDouble(p -> accuracy ? 100 * p.accuracy : p.loss).toArray();
        XYSeries series = chart.addSeries(name, x, y);
        series.setMarkerColor(color).setLineColor(color).setLineWidth(width);
        series.setMarker(marked ? SeriesMarkers.CIRCLE : SeriesMarkers.NONE);
    }

    /** Returns at most {@link #MAX_POINTS} points, each the mean of equally many neighbours. */
    private static List<Point> average(List<Point> points) {
        int group = (points.size() + MAX_POINTS - 1) / MAX_POINTS;
        if (group <= 1) {
            return points;
        }
        List<Point> averaged = new ArrayList<>();
        for (int from = 0; from < points.size(); from += group) {
            List<Point> neighbours = points.subList(from, Math.min(from + group, points.size()));
            averaged.add(new Point(
                neighbours.stream().mapToDouble(Point::epoch).average().orElseThrow(),
                neighbours.stream().mapToDouble(Point::loss).average().orElseThrow(),
                neighbours.stream().mapToDouble(Point::accuracy).average().orElseThrow()));
        }
        return averaged;
    }
}
