package dev.starling.nn.chart;

import java.awt.BasicStroke;
import java.awt.Color;
import java.awt.Font;
import java.awt.Graphics2D;
import java.awt.RenderingHints;
import java.awt.geom.Path2D;
import java.awt.geom.Rectangle2D;
import java.awt.image.BufferedImage;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.util.List;
import java.util.Locale;
import javax.imageio.ImageIO;
import javax.imageio.stream.ImageOutputStream;
import javax.imageio.stream.MemoryCacheImageOutputStream;

/** A surface to draw charts on: an SVG text, or an image. Lengths are pixels, from the upper left corner. */
public sealed interface Canvas {
    /** Alignment of a text relative to its position. */
    enum Anchor {
        /** Starts at the position. */
        START,
        /** Centred at the position. */
        MIDDLE,
        /** Ends at the position. */
        END
    }

    /** A point. */
    record Spot(double x, double y) { }

    /** Fills a rectangle. */
    void box(double x, double y, double width, double height, String colour);

    /** Draws a line through points. */
    void line(List<Spot> spots, double width, String colour);

    /** Writes a text whose baseline is at {@code y}. */
    void text(double x, double y, double size, Anchor anchor, String colour, String text);

    /** Writes SVG. */
    final class Svg implements Canvas {
        private final StringBuilder body = new StringBuilder();
        private final int width;
        private final int height;

        Svg(int width, int height) {
            this.width = width;
            this.height = height;
        }

        @Override
        public void box(double x, double y, double boxWidth, double boxHeight, String colour) {
            add("<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\"/>", x, y, boxWidth, boxHeight,
                    colour);
        }

        @Override
        public void line(List<Spot> spots, double lineWidth, String colour) {
            StringBuilder points = new StringBuilder();
            spots.forEach(s -> points.append(String.format(Locale.ROOT, "%.1f,%.1f ", s.x, s.y)));
            add("<polyline points=\"%s\" fill=\"none\" stroke=\"%s\" stroke-width=\"%.1f\"/>",
                    points.toString().strip(), colour, lineWidth);
        }

        @Override
        public void text(double x, double y, double size, Anchor anchor, String colour, String text) {
            add("<text x=\"%.1f\" y=\"%.1f\" font-size=\"%.0f\" text-anchor=\"%s\" fill=\"%s\">%s</text>", x, y, size,
                    anchor.name().toLowerCase(Locale.ROOT), colour,
                    text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;"));
        }

        private void add(String format, Object... values) {
            body.append(String.format(Locale.ROOT, format, values)).append('\n');
        }

        @Override
        public String toString() {
            return String.format(Locale.ROOT, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" "
                    + "height=\"%d\" viewBox=\"0 0 %d %d\" font-family=\"sans-serif\">%n%s</svg>%n", width, height,
                    width, height, body);
        }
    }

    /** Draws an image, with two pixels for each. The only class here that needs the module {@code java.desktop}. */
    final class Image implements Canvas {
        private static final int SCALE = 2;

        private final BufferedImage image;
        private final Graphics2D graphics;

        Image(int width, int height) {
            image = new BufferedImage(width * SCALE, height * SCALE, BufferedImage.TYPE_INT_RGB);
            graphics = image.createGraphics();
            graphics.setRenderingHint(RenderingHints.KEY_ANTIALIASING, RenderingHints.VALUE_ANTIALIAS_ON);
            graphics.setRenderingHint(RenderingHints.KEY_TEXT_ANTIALIASING, RenderingHints.VALUE_TEXT_ANTIALIAS_ON);
            graphics.scale(SCALE, SCALE);
        }

        /** Ends the drawing, and returns it as PNG. */
        byte[] png() throws IOException {
            graphics.dispose();
            ByteArrayOutputStream bytes = new ByteArrayOutputStream();
            try (ImageOutputStream out = new MemoryCacheImageOutputStream(bytes)) {
                if (!ImageIO.write(image, "png", out)) {
                    throw new IOException("no PNG encoder in this JDK");
                }
            }
            return bytes.toByteArray();
        }

        @Override
        public void box(double x, double y, double width, double height, String colour) {
            graphics.setColor(Color.decode(colour));
            graphics.fill(new Rectangle2D.Double(x, y, width, height));
        }

        @Override
        public void line(List<Spot> spots, double width, String colour) {
            Path2D path = new Path2D.Double();
            path.moveTo(spots.getFirst().x, spots.getFirst().y);
            spots.forEach(s -> path.lineTo(s.x, s.y));
            graphics.setColor(Color.decode(colour));
            graphics.setStroke(new BasicStroke((float) width));
            graphics.draw(path);
        }

        @Override
        public void text(double x, double y, double size, Anchor anchor, String colour, String text) {
            graphics.setColor(Color.decode(colour));
            graphics.setFont(new Font(Font.SANS_SERIF, Font.PLAIN, 1).deriveFont((float) size));
            double length = graphics.getFontMetrics().getStringBounds(text, graphics).getWidth();
            double left = switch (anchor) {
                case START -> x;
                case MIDDLE -> x - length / 2;
                case END -> x - length;
            };
            graphics.drawString(text, (float) left, (float) y);
        }
    }
}
