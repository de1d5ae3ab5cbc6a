package onceproof;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.flink.api.common.eventtime.WatermarkGenerator;
import org.apache.flink.api.common.eventtime.WatermarkGeneratorSupplier;
import org.apache.flink.api.common.eventtime.WatermarkOutput;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.serialization.SimpleStringEncoder;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.PrimitiveArrayTypeInfo;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.configuration.ConfigOption;
import org.apache.flink.configuration.ConfigOptions;
import org.apache.flink.configuration.ReadableConfig;
import org.apache.flink.connector.file.sink.FileSink;
import org.apache.flink.core.fs.Path;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.DataStreamSink;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.streaming.api.functions.sink.filesystem.OutputFileConfig;
import org.apache.flink.streaming.api.functions.sink.filesystem.bucketassigners.BasePathBucketAssigner;
import org.apache.flink.streaming.api.functions.sink.filesystem.rollingpolicies.OnCheckpointRollingPolicy;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.table.connector.ChangelogMode;
import org.apache.flink.table.connector.ProviderContext;
import org.apache.flink.table.connector.sink.DataStreamSinkProvider;
import org.apache.flink.table.connector.sink.DynamicTableSink;
import org.apache.flink.table.connector.source.DataStreamScanProvider;
import org.apache.flink.table.connector.source.DynamicTableSource;
import org.apache.flink.table.connector.source.ScanTableSource;
import org.apache.flink.table.connector.source.abilities.SupportsWatermarkPushDown;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.factories.DynamicTableSinkFactory;
import org.apache.flink.table.factories.DynamicTableSourceFactory;
import org.apache.flink.table.factories.FactoryUtil;
import org.apache.flink.table.runtime.typeutils.InternalTypeInfo;
import org.apache.flink.table.types.logical.LogicalType;
import org.apache.flink.types.RowKind;
import org.apache.flink.util.Collector;

/**
 * The connector of scenarios: the tables at the ends of a script's job.
 *
 * <p>The rules this class lives by:
 *
 * <ul>
 *   <li>A source gives the changes in the splits of a scenario, each split with a watermark of its own.
 *   <li>A sink writes a line for each change into files that are committed with checkpoints. Where its table is
 *       changed by more than INSERTs, the changes of a key are numbered in keyed state.
 *   <li>Several statements that write one table are one stream, which the last of them writes.
 * </ul>
 */
public final class ScenarioTables implements DynamicTableSourceFactory, DynamicTableSinkFactory {
  private static final ConfigOption<String> MODE = text("mode");
  private static final ConfigOption<String> NAME = text("name");
  private static final ConfigOption<String> RECORDS = text("records");
  private static final ConfigOption<String> LOG = text("log");
  private static final ConfigOption<String> CHECKPOINTS = text("checkpoints");
  private static final ConfigOption<String> KEPT = text("kept");
  private static final ConfigOption<Integer> PER_CHECKPOINT =
      ConfigOptions.key("records-per-checkpoint").intType().defaultValue(1);
  private static final ConfigOption<Long> PAUSE = ConfigOptions.key("pause-ms").longType().defaultValue(0L);
  private static final ConfigOption<Boolean> ENDLESS =
      ConfigOptions.key("endless").booleanType().defaultValue(false);
  private static final ConfigOption<String> OUTPUT = text("output");
  private static final ConfigOption<Boolean> NUMBERED =
      ConfigOptions.key("numbered").booleanType().defaultValue(false);
  /** The columns of the key, with commas; without any the whole row is one. */
  private static final ConfigOption<String> KEY = text("key");
  private static final ConfigOption<Integer> WRITERS =
      ConfigOptions.key("writers").intType().defaultValue(1);

  /** The streams that are to be written together, by the job's table. */
  private static final Map<String, List<DataStream<RowData>>> WAITING = new HashMap<>();

  private static ConfigOption<String> text(String key) {
    return ConfigOptions.key(key).stringType().defaultValue("");
  }

  @Override
  public String factoryIdentifier() {
    return "onceproof-scenario";
  }

  @Override
  public Set<ConfigOption<?>> requiredOptions() {
    return new HashSet<>();
  }

  @Override
  public Set<ConfigOption<?>> optionalOptions() {
    return Set.of(
        MODE, NAME, RECORDS, LOG, CHECKPOINTS, KEPT, PER_CHECKPOINT, PAUSE, ENDLESS, OUTPUT, NUMBERED, KEY, WRITERS);
  }

  @Override
  public DynamicTableSource createDynamicTableSource(Context context) {
    return new Source(optionsOf(context), context.getPhysicalRowDataType().getLogicalType(), null);
  }

  @Override
  public DynamicTableSink createDynamicTableSink(Context context) {
    return new Sink(optionsOf(context), context.getPhysicalRowDataType().getLogicalType());
  }

  private ReadableConfig optionsOf(Context context) {
    FactoryUtil.TableFactoryHelper helper = FactoryUtil.createTableFactoryHelper(this, context);
    helper.validate();
    return helper.getOptions();
  }

  private static ChangelogMode modeOf(String name) {
    switch (name) {
      case "append":
        return ChangelogMode.insertOnly();
      case "upsert":
        return ChangelogMode.newBuilder()
            .addContainedKind(RowKind.INSERT)
            .addContainedKind(RowKind.UPDATE_AFTER)
            .addContainedKind(RowKind.DELETE)
            .build();
      default:
        return ChangelogMode.all();
    }
  }

  private static void name(SingleOutputStreamOperator<?> operator, ProviderContext provider, String name) {
    operator.name(name);
    provider.generateUid(name).ifPresent(operator::uid);
  }

  private static final class Source implements ScanTableSource, SupportsWatermarkPushDown {
    private final ReadableConfig options;
    private final LogicalType type;
    private WatermarkStrategy<RowData> watermarks;

    Source(ReadableConfig options, LogicalType type, WatermarkStrategy<RowData> watermarks) {
      this.options = options;
      this.type = type;
      this.watermarks = watermarks;
    }

    @Override
    public void applyWatermark(WatermarkStrategy<RowData> strategy) {
      watermarks = strategy;
    }

    @Override
    public ChangelogMode getChangelogMode() {
      return modeOf(options.get(MODE));
    }

    @Override
    public ScanRuntimeProvider getScanRuntimeProvider(ScanContext context) {
      return new DataStreamScanProvider() {
        @Override
        public DataStream<RowData> produceDataStream(
            ProviderContext provider, StreamExecutionEnvironment environment) {
          return read(provider, environment);
        }

        @Override
        public boolean isBounded() {
          return !options.get(ENDLESS);
        }
      };
    }

    private DataStream<RowData> read(ProviderContext provider, StreamExecutionEnvironment environment) {
      String name = options.get(NAME);
      SourceLog log = new SourceLog(name, options.get(LOG), options.get(CHECKPOINTS), options.get(KEPT));
      ScenarioSource source =
          new ScenarioSource(
              options.get(RECORDS),
              log,
              options.get(PER_CHECKPOINT),
              options.get(PAUSE),
              options.get(ENDLESS));
      TableRows rows = new TableRows(type);
      SingleOutputStreamOperator<byte[]> texts =
          environment.fromSource(
              source,
              watermarks == null ? WatermarkStrategy.noWatermarks() : watermarksOf(watermarks, rows),
              name,
              PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO);
      name(texts, provider, "scenario");
      SingleOutputStreamOperator<RowData> read = texts.map(rows::row).returns(InternalTypeInfo.of(type));
      name(read, provider, "changes");
      return read;
    }

    /** Returns a strategy for texts that is the one for their rows. */
    private static WatermarkStrategy<byte[]> watermarksOf(WatermarkStrategy<RowData> strategy, TableRows rows) {
      WatermarkGeneratorSupplier<byte[]> supplier =
          context -> {
            WatermarkGenerator<RowData> generator = strategy.createWatermarkGenerator(context);
            return new WatermarkGenerator<byte[]>() {
              @Override
              public void onEvent(byte[] text, long timestamp, WatermarkOutput output) {
                generator.onEvent(rows.row(text), timestamp, output);
              }

              @Override
              public void onPeriodicEmit(WatermarkOutput output) {
                generator.onPeriodicEmit(output);
              }
            };
          };
      return WatermarkStrategy.forGenerator(supplier);
    }

    @Override
    public DynamicTableSource copy() {
      return new Source(options, type, watermarks);
    }

    @Override
    public String asSummaryString() {
      return "scenario";
    }
  }

  private static final class Sink implements DynamicTableSink {
    private final ReadableConfig options;
    private final LogicalType type;

    Sink(ReadableConfig options, LogicalType type) {
      this.options = options;
      this.type = type;
    }

    @Override
    public ChangelogMode getChangelogMode(ChangelogMode requested) {
      return options.get(MODE).equals("any") ? requested : modeOf(options.get(MODE));
    }

    @Override
    public SinkRuntimeProvider getSinkRuntimeProvider(Context context) {
      return new DataStreamSinkProvider() {
        @Override
        public DataStreamSink<?> consumeDataStream(ProviderContext provider, DataStream<RowData> rows) {
          return write(provider, rows);
        }
      };
    }

    private DataStreamSink<?> write(ProviderContext provider, DataStream<RowData> rows) {
      String table = options.get(NAME);
      String place = options.get(RECORDS) + table;
      List<DataStream<RowData>> together = WAITING.computeIfAbsent(place, unused -> new ArrayList<>());
      if (together.size() + 1 < options.get(WRITERS)) {
        together.add(rows);
        return rows.sinkTo(new DiscardingSink<>());
      }
      WAITING.remove(place);
      for (DataStream<RowData> other : together) {
        rows = rows.union(other);
      }
      TableRows texts = new TableRows(type);
      SingleOutputStreamOperator<String> lines;
      if (options.get(NUMBERED)) {
        int[] key = columns();
        lines = rows.keyBy(row -> texts.key(row, key), Types.STRING).process(new Numbered(table, texts));
      } else {
        lines = rows.map(row -> texts.line(table, row, null));
      }
      lines.returns(Types.STRING);
      name(lines, provider, "rows");
      DataStreamSink<String> sink = lines.sinkTo(filesIn(options.get(OUTPUT)));
      provider.generateUid("files").ifPresent(sink::uid);
      return sink.name(table);
    }

    private int[] columns() {
      String key = options.get(KEY);
      int[] columns = new int[key.isEmpty() ? type.getChildren().size() : key.split(",").length];
      for (int place = 0; place < columns.length; place++) {
        columns[place] = key.isEmpty() ? place : Integer.parseInt(key.split(",")[place]);
      }
      return columns;
    }

    private static FileSink<String> filesIn(String folder) {
      return FileSink.forRowFormat(new Path(folder), new SimpleStringEncoder<String>())
          .withBucketAssigner(new BasePathBucketAssigner<>())
          .withRollingPolicy(OnCheckpointRollingPolicy.build())
          .withOutputFileConfig(OutputFileConfig.builder().withPartPrefix("part").build())
          .build();
    }

    @Override
    public DynamicTableSink copy() {
      return new Sink(options, type);
    }

    @Override
    public String asSummaryString() {
      return "scenario";
    }
  }

  /** Numbers the changes of a key. */
  private static final class Numbered extends KeyedProcessFunction<String, RowData, String> {
    private static final long serialVersionUID = 1L;
    private final String table;
    private final TableRows texts;
    private transient ValueState<Long> count;

    Numbered(String table, TableRows texts) {
      this.table = table;
      this.texts = texts;
    }

    @Override
    public void open(OpenContext context) {
      count = getRuntimeContext().getState(new ValueStateDescriptor<>("changes", Types.LONG));
    }

    @Override
    public void processElement(RowData row, Context context, Collector<String> lines) throws Exception {
      long number = count.value() == null ? 1 : count.value() + 1;
      count.update(number);
      lines.collect(texts.line(table, row, number));
    }
  }
}
