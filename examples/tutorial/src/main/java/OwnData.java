import dev.starling.nn.*;
import dev.starling.nn.data.*;
import dev.starling.nn.loss.*;
import dev.starling.nn.model.*;
import dev.starling.nn.optim.*;
import dev.starling.nn.preprocess.*;
import dev.starling.nn.train.*;
import dev.starling.tensor.*;

/** Writes a table as a program that is not in Java might: the rent of flats, some without their area. */
void writeFlats(Path file) throws IOException {
    List<String> lines = new ArrayList<>(List.of("city,area,rent"));
    Random random = new Random(1);
    for (int i = 0; i < 2000; i++) {
        boolean dear = random.nextBoolean();
        int area = 20 + random.nextInt(100);
        lines.add((dear ? "Munich," : "Leipzig,") + (i % 50 == 0 ? "" : area) + "," + (dear ? 25 : 10) * area);
    }
    Files.write(file, lines);
}

void main() throws IOException {
    Path file = Path.of("target", "flats.csv");
    writeFlats(file);
    List<Table> parts = CsvFile.of(file).read().split(7, 0.8, 0.2);
    TableEncoder encoder = Flats.encoder().adapt(parts.get(0));
    Sequential model = Flats.model(encoder);
    try (DataLoader train = DataLoader.of(encoder.dataset(parts.get(0))).batchSize(32).shuffle().build();
            DataLoader test = DataLoader.of(encoder.dataset(parts.get(1))).batchSize(400).build()) {
        History history = Trainer.of(model, Loss.meanAbsolute(), Adam.over(model).rate(0.01).build()).data(train)
                .heldOut(test).epochs(40).listeners(EarlyStopping.patience(5).restoreBest(model)).build().run();
        IO.println("flats: " + history.epochs().getLast());
    }
    model.save(Path.of("target", "flats.safetensors"), ModelMetadata.none().version("1"));
}
