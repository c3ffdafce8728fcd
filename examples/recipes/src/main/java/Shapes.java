import dev.starling.nn.*;
import dev.starling.nn.data.*;
import dev.starling.nn.image.*;
import dev.starling.nn.layer.*;
import dev.starling.nn.loss.*;
import dev.starling.nn.optim.*;
import dev.starling.nn.train.*;
import dev.starling.tensor.*;
import java.awt.Color;
import java.awt.Graphics2D;
import java.awt.image.BufferedImage;
import javax.imageio.ImageIO;

/** Draws PNG files of discs, squares and triangles in any colour, size and place, in a folder for each shape. */
void draw(Path root, int count) throws IOException {
    Random random = new Random(1);
    for (int i = 0; i < count; i++) {
        BufferedImage image = new BufferedImage(40, 40, BufferedImage.TYPE_INT_RGB);
        Graphics2D pen = image.createGraphics();
        pen.setColor(Color.getHSBColor(random.nextFloat(), 1, 1));
        int size = 14 + random.nextInt(12);
        int x = random.nextInt(40 - size);
        int y = random.nextInt(40 - size);
        switch (i % 3) {
            case 0 -> pen.fillOval(x, y, size, size);
            case 1 -> pen.fillRect(x, y, size, size);
            default -> pen.fillPolygon(new int[] {x, x + size, x + size / 2}, new int[] {y + size, y + size, y}, 3);
        }
        Path folder = Files.createDirectories(root.resolve(List.of("disc", "square", "triangle").get(i % 3)));
        ImageIO.write(image, "png", folder.resolve(i + ".png").toFile());
    }
}

void main() throws IOException {
    Path root = Files.createTempDirectory("shapes");
    draw(root.resolve("images"), 600);
    List<ImageFolder> parts = ImageFolder.of(root.resolve("images"), 32, 32).split(7, 0.8, 0.2);
    Dataset augmented = parts.get(0).transforms(Transforms.randomResizedCrop(32, 32, 0.7, 1), Transforms.randomFlip(),
            Transforms.colorJitter(0.3, 0.3, 0.3));
    Generator random = Generator.seeded(42);
    Sequential model = Sequential.of(Conv2d.of(3, 16, 3).build(random), new Relu(), MaxPool2d.of(2),
            Conv2d.of(16, 32, 3).build(random), new Relu(), MaxPool2d.of(2), new Flatten(),
            Linear.of(32 * 6 * 6, 3, random));
    try (DataLoader train = DataLoader.of(augmented).batchSize(32).workers(2).shuffle().build();
            DataLoader test = DataLoader.of(parts.get(1)).batchSize(60).build()) {
        IO.println(Trainer.of(model, Loss.crossEntropy(), Adam.over(model).rate(0.003).build()).data(train)
                .heldOut(test).metrics(Metric.accuracy()).epochs(12).build().run());
        ConfusionMatrix matrix = ConfusionMatrix.evaluate(model, test, 3).named(parts.get(1).classes());
        Path picture = root.resolve("confusion.png");
        matrix.draw(picture);
        IO.println(matrix + "drawn in " + picture);
    }
}
