import dev.starling.distributed.*;
import dev.starling.distributed.coordinator.*;
import dev.starling.distributed.launch.*;
import dev.starling.distributed.ring.*;
import dev.starling.nn.*;
import dev.starling.nn.data.*;
import dev.starling.nn.layer.*;
import dev.starling.nn.loss.*;
import dev.starling.nn.optim.*;
import dev.starling.nn.train.*;
import dev.starling.tensor.*;
import dev.starling.transport.*;

/** Two processes that learn the sine together. */
void main(String[] arguments) {
    LaunchedProcess me = LaunchedProcess.fromEnvironment().orElse(null);
    if (me == null) {
        // Started by hand: starts this program twice, and decides which processes are members of the group.
        System.exit(Launcher.ofThisProgram(arguments).processes(2).coordinator((secret, directory, processes) ->
                CoordinatorThread.start(Coordinator.open(TransportConfig.of("tcp", secret).directory(directory),
                        CoordinatorConfig.of(processes, Coordinator.OnLoss.END)))).run());
    }
    Generator random = Generator.seeded(1);
    Tensor x = random.uniform(2000, 1).mul(6);
    Sequential model = Sequential.of(Linear.of(1, 64, random), new Tanh(), Linear.of(64, 1, random));
    TransportConfig transport = TransportConfig.of("tcp", me.secret()).at(me.host(), 0);
    try (Group group = Group.join(GroupConfig.of(transport, me.coordinator()).preferredRank(me.rank()));
            RingAllReduce ring = RingAllReduce.over(group).build();
            DataLoader data = DataLoader.of(TensorDataset.of(x, x.sin())).batchSize(50).shuffle().build()) {
        History history = Trainer.of(model, Loss.meanSquared(), Adam.over(model).rate(0.01).build()).data(data)
                .strategy(ring).epochs(30).build().run();
        IO.println("rank " + me.rank() + " of " + group.world() + ": " + history.epochs().getLast());
    }
}
