import dev.starling.nn.*;
import dev.starling.nn.data.*;
import dev.starling.nn.layer.*;
import dev.starling.nn.loss.*;
import dev.starling.nn.model.*;
import dev.starling.nn.optim.*;
import dev.starling.nn.preprocess.*;
import dev.starling.nn.train.*;
import dev.starling.tensor.*;

/** Writes a file as it comes from a spreadsheet: towns are texts, and some ages and towns are missing. */
Path write(Path file) throws IOException {
    Random random = new Random(1);
    List<String> towns = List.of("Basel", "Bern", "Chur", "Zürich");
    StringBuilder text = new StringBuilder("area;age;town;price\n");
    for (int i = 0; i < 1000; i++) {
        double area = 40 + 160 * random.nextDouble();
        int age = random.nextInt(80);
        int town = random.nextInt(4);
        double price = area * (4 + town) * (1 - 0.004 * age) + 10 * random.nextGaussian();
        text.append(String.format(Locale.ROOT, "%.1f;%s;%s;%.0f%n", area, i % 10 == 0 ? "" : age,
                i % 25 == 0 ? "" : towns.get(town), price));
    }
    return Files.writeString(file, text);
}

TableEncoder encoder() {
    return TableEncoder.builder().numbers("area", "age").categories("town", 8).target("price").build();
}

Sequential model(TableEncoder encoder) {
    Generator random = Generator.seeded(42);
    return Sequential.of(encoder, Linear.of(encoder.width(), 32, random), new Relu(), Linear.of(32, 32, random),
            new Relu(), Linear.of(32, 1, random), encoder.output());
}

void main() throws IOException {
    Path folder = Files.createTempDirectory("houses");
    Path best = folder.resolve("best.safetensors");
    List<Table> parts = CsvFile.of(write(folder.resolve("houses.csv"))).separator(';').read().split(7, 0.8, 0.2);
    TableEncoder encoder = encoder().adapt(parts.get(0));
    Sequential model = model(encoder);
    try (DataLoader train = DataLoader.of(encoder.dataset(parts.get(0))).batchSize(32).shuffle().build();
            DataLoader test = DataLoader.of(encoder.dataset(parts.get(1))).batchSize(200).build()) {
        IO.println(Trainer.of(model, Loss.meanSquared(), Adam.over(model).rate(0.01).build()).data(train).heldOut(test)
                .metrics(Metrics.rSquared()).epochs(200)
                .listeners(EarlyStopping.patience(10), BestModel.of(model, best)).build().run());
    }
    // Another program builds the same model. Means, towns and weights come from the file.
    TableEncoder loaded = encoder();
    Sequential served = model(loaded);
    IO.println(ModelFile.load(best, served));
    Table request = Table.of(List.of(Map.of("area", 120, "age", 10, "town", "Bern")));
    IO.println("a house of 120 m² in Bern costs " + Math.round(served.forward(loaded.tensor(request)).item()));
}
