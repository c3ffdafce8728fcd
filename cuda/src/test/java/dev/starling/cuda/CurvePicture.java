package dev.starling.cuda;

import java.awt.BasicStroke;
import java.awt.Color;
import java.awt.Font;
import java.awt.Graphics2D;
import java.awt.RenderingHints;
import java.awt.geom.Path2D;
import java.awt.image.BufferedImage;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Locale;
import java.util.Map;
import javax.imageio.ImageIO;

/** Curves over the same steps in one picture. */
final class CurvePicture {
    private static final int WIDTH = 1200;
    private static final int HEIGHT = 700;
    private static final int MARGIN = 60;
    /** The first curve is drawn wide, so that those drawn over it do not hide it. */
    private static final Color[] COLORS = {new Color(0x9db8d2), new Color(0xd1495b), new Color(0x333333)};
    private static final float[] BREADTHS = {7, 2.5f, 1};

    private CurvePicture() { }

    /** Draws up to three curves and writes them as PNG, without text if the machine has no font. */
    static void draw(String title, Map<String, double[]> curves, Path png) {
        System.setProperty("java.awt.headless", "true");
        BufferedImage image = new BufferedImage(WIDTH, HEIGHT, BufferedImage.TYPE_INT_RGB);
        Graphics2D graphics = image.createGraphics();
        graphics.setRenderingHint(RenderingHints.KEY_ANTIALIASING, RenderingHints.VALUE_ANTIALIAS_ON);
        graphics.setColor(Color.WHITE);
        graphics.fillRect(0, 0, WIDTH, HEIGHT);
        double max = curves.values().stream().flatMapToDouble(Arrays::stream).filter(Double::isFinite).max()
                .orElse(1);
        graphics.setColor(Color.LIGHT_GRAY);
        for (int i = 0; i <= 10; i++) {
            graphics.drawLine(MARGIN, y(i * max / 10, max), WIDTH - MARGIN, y(i * max / 10, max));
        }
        int k = 0;
        for (double[] curve : curves.values()) {
            graphics.setColor(COLORS[k]);
            graphics.setStroke(new BasicStroke(BREADTHS[k++], BasicStroke.CAP_ROUND, BasicStroke.JOIN_ROUND));
            graphics.draw(line(curve, max));
        }
        try {
            write(graphics, title, curves, max);
        } catch (LinkageError | InternalError e) {
            System.err.println("no text in " + png + ": " + e);
        }
        graphics.dispose();
        try {
            Files.createDirectories(png.toAbsolutePath().getParent());
            ImageIO.write(image, "png", png.toFile());
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static int y(double value, double max) {
        return (int) Math.round(HEIGHT - MARGIN - value / max * (HEIGHT - 2 * MARGIN));
    }

    private static Path2D line(double[] curve, double max) {
        Path2D line = new Path2D.Double();
        boolean open = false;
        for (int i = 0; i < curve.length; i++) {
            if (Double.isFinite(curve[i])) {
                double x = MARGIN + (WIDTH - 2.0 * MARGIN) * i / Math.max(1, curve.length - 1);
                if (open) {
                    line.lineTo(x, y(curve[i], max));
                } else {
                    line.moveTo(x, y(curve[i], max));
                }
                open = true;
            }
        }
        return line;
    }

    private static void write(Graphics2D graphics, String title, Map<String, double[]> curves, double max) {
        graphics.setFont(new Font(Font.SANS_SERIF, Font.PLAIN, 18));
        graphics.setColor(Color.DARK_GRAY);
        graphics.drawString(title, MARGIN, MARGIN / 2);
        graphics.drawString(String.format(Locale.ROOT, "%.2f", max), 8, MARGIN + 6);
        graphics.drawString("0", 8, HEIGHT - MARGIN + 6);
        int k = 0;
        for (String name : curves.keySet()) {
            graphics.setColor(COLORS[k]);
            graphics.drawString(name, WIDTH - 5 * MARGIN, MARGIN + 30 * ++k);
        }
    }
}
