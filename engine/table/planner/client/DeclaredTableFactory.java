package onceproof;

import java.util.Collection;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.configuration.ConfigOption;
import org.apache.flink.configuration.ConfigOptions;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.DataStreamSink;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.table.api.DataTypes;
import org.apache.flink.table.catalog.Column;
import org.apache.flink.table.connector.ChangelogMode;
import org.apache.flink.table.connector.ProviderContext;
import org.apache.flink.table.connector.sink.DataStreamSinkProvider;
import org.apache.flink.table.connector.sink.DynamicTableSink;
import org.apache.flink.table.connector.source.DataStreamScanProvider;
import org.apache.flink.table.connector.source.DynamicTableSource;
import org.apache.flink.table.connector.source.LookupTableSource;
import org.apache.flink.table.connector.source.ScanTableSource;
import org.apache.flink.table.connector.source.abilities.SupportsReadingMetadata;
import org.apache.flink.table.connector.source.abilities.SupportsWatermarkPushDown;
import org.apache.flink.table.connector.sink.abilities.SupportsWritingMetadata;
import org.apache.flink.table.connector.source.lookup.AsyncLookupFunctionProvider;
import org.apache.flink.table.connector.source.lookup.LookupFunctionProvider;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.factories.DynamicTableFactory;
import org.apache.flink.table.factories.DynamicTableSinkFactory;
import org.apache.flink.table.factories.DynamicTableSourceFactory;
import org.apache.flink.table.factories.FactoryUtil;
import org.apache.flink.table.factories.ModuleFactory;
import org.apache.flink.table.functions.AsyncLookupFunction;
import org.apache.flink.table.functions.LookupFunction;
import org.apache.flink.table.module.Module;
import org.apache.flink.table.runtime.typeutils.InternalTypeInfo;
import org.apache.flink.table.types.DataType;
import org.apache.flink.types.RowKind;

/**
 * Tables that exist for the planner only: a schema, the changes that they send or accept, and whether they are
 * looked up.
 *
 * As a module it answers for tables of every connector, so what a program declares is planned without the jars of
 * its connectors, and its options are left to the engine. The options of {@code vec} say what those of a connector
 * imply.
 */
public final class DeclaredTableFactory
        implements DynamicTableSourceFactory, DynamicTableSinkFactory, ModuleFactory, Module {
    private static final ConfigOption<String> MODE =
            ConfigOptions.key("mode").stringType().defaultValue("append");
    private static final ConfigOption<String> SINK_MODE =
            ConfigOptions.key("sink-mode").stringType().defaultValue("any");
    /** Whether the source makes watermarks for each of its splits, as that of Kafka does. */
    private static final ConfigOption<Boolean> PUSHED_WATERMARKS =
            ConfigOptions.key("pushed-watermarks").booleanType().defaultValue(false);
    /** Whether rows are looked up by key: no, sync or async. */
    private static final ConfigOption<String> LOOKUP =
            ConfigOptions.key("lookup").stringType().defaultValue("no");

    private static final Map<String, DataType> KAFKA_METADATA =
            Map.of(
                    "topic", DataTypes.STRING().notNull(),
                    "partition", DataTypes.INT().notNull(),
                    "offset", DataTypes.BIGINT().notNull(),
                    "timestamp", DataTypes.TIMESTAMP_WITH_LOCAL_TIME_ZONE(3).notNull(),
                    "timestamp-type", DataTypes.STRING().notNull(),
                    "headers",
                            DataTypes.MAP(DataTypes.STRING().nullable(), DataTypes.BYTES().nullable())
                                    .notNull());

    @Override
    public String factoryIdentifier() {
        return "vec";
    }

    @Override
    public Set<ConfigOption<?>> requiredOptions() {
        return new HashSet<>();
    }

    @Override
    public Set<ConfigOption<?>> optionalOptions() {
        return Set.of(MODE, SINK_MODE, PUSHED_WATERMARKS, LOOKUP);
    }

    @Override
    public Module createModule(ModuleFactory.Context context) {
        return this;
    }

    @Override
    public Optional<DynamicTableSourceFactory> getTableSourceFactory() {
        return Optional.of(this);
    }

    @Override
    public Optional<DynamicTableSinkFactory> getTableSinkFactory() {
        return Optional.of(this);
    }

    @Override
    public DynamicTableSource createDynamicTableSource(DynamicTableFactory.Context context) {
        Declared declared = declaredBy(context);
        DataType type = context.getPhysicalRowDataType();
        Map<String, DataType> metadata = metadataOf(context);
        if (!declared.lookup.equals("no")) {
            return new LookupSource(declared.mode, type, declared.lookup);
        }
        if (!metadata.isEmpty()) {
            return new MetadataSource(declared.mode, type, metadata);
        }
        return declared.pushed ? new SplitSource(declared.mode, type) : new Source(declared.mode, type);
    }

    @Override
    public DynamicTableSink createDynamicTableSink(DynamicTableFactory.Context context) {
        Declared declared = declaredBy(context);
        Map<String, DataType> metadata = metadataOf(context);
        return metadata.isEmpty()
                ? new Sink(declared.sinkMode)
                : new MetadataSink(declared.sinkMode, metadata);
    }

    /** What a table says of itself, or its connector and format imply. */
    private static final class Declared {
        final String mode;
        final String sinkMode;
        final boolean pushed;
        final String lookup;

        Declared(String mode, String sinkMode, boolean pushed, String lookup) {
            this.mode = mode;
            this.sinkMode = sinkMode;
            this.pushed = pushed;
            this.lookup = lookup;
        }
    }

    private Declared declaredBy(DynamicTableFactory.Context context) {
        Map<String, String> options = context.getCatalogTable().getOptions();
        String connector = options.getOrDefault("connector", "");
        if (connector.equals("vec")) {
            FactoryUtil.TableFactoryHelper helper = FactoryUtil.createTableFactoryHelper(this, context);
            helper.validate();
            return new Declared(
                    helper.getOptions().get(MODE),
                    helper.getOptions().get(SINK_MODE),
                    helper.getOptions().get(PUSHED_WATERMARKS),
                    helper.getOptions().get(LOOKUP));
        }
        boolean hasKey = context.getCatalogTable().getResolvedSchema().getPrimaryKey().isPresent();
        String format = options.getOrDefault("value.format", options.getOrDefault("format", ""));
        boolean sendsAll = format.startsWith("debezium-");
        switch (connector) {
            case "upsert-kafka":
                return new Declared("upsert", "upsert", true, "no");
            case "kafka":
            case "filesystem":
                return new Declared(
                        sendsAll ? "retract" : "append",
                        sendsAll ? "any" : "append",
                        connector.equals("kafka"),
                        "no");
            case "jdbc":
                return new Declared("append", hasKey ? "upsert" : "append", false, "sync");
            default:
                return new Declared("append", "any", false, "no");
        }
    }

    /** The metadata columns of a table by key, with the types that the connector gives them. */
    private static Map<String, DataType> metadataOf(DynamicTableFactory.Context context) {
        boolean isKafka = "kafka".equals(context.getCatalogTable().getOptions().get("connector"));
        Map<String, DataType> found = new LinkedHashMap<>();
        for (Column column : context.getCatalogTable().getResolvedSchema().getColumns()) {
            if (column instanceof Column.MetadataColumn) {
                String key = ((Column.MetadataColumn) column).getMetadataKey().orElse(column.getName());
                DataType known = isKafka ? KAFKA_METADATA.get(key) : null;
                found.put(key, known == null ? column.getDataType() : known);
            }
        }
        return found;
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

    private static class Source implements ScanTableSource {
        final String mode;
        final DataType type;

        Source(String mode, DataType type) {
            this.mode = mode;
            this.type = type;
        }

        /** The type of the rows, with what was asked for beside the columns. */
        DataType produced() {
            return type;
        }

        @Override
        public ChangelogMode getChangelogMode() {
            return modeOf(mode);
        }

        @Override
        public ScanRuntimeProvider getScanRuntimeProvider(ScanContext context) {
            return new DataStreamScanProvider() {
                @Override
                public DataStream<RowData> produceDataStream(
                        ProviderContext provider, StreamExecutionEnvironment environment) {
                    return environment
                            .fromData(0L)
                            .filter(number -> false)
                            .map(number -> (RowData) null)
                            .returns(InternalTypeInfo.of(produced().getLogicalType()));
                }

                @Override
                public boolean isBounded() {
                    return false;
                }
            };
        }

        @Override
        public DynamicTableSource copy() {
            return new Source(mode, type);
        }

        @Override
        public String asSummaryString() {
            return "vec";
        }
    }

    private static class SplitSource extends Source implements SupportsWatermarkPushDown {
        SplitSource(String mode, DataType type) {
            super(mode, type);
        }

        @Override
        public void applyWatermark(WatermarkStrategy<RowData> strategy) {}

        @Override
        public DynamicTableSource copy() {
            return new SplitSource(mode, type);
        }
    }

    private static final class MetadataSource extends SplitSource implements SupportsReadingMetadata {
        private final Map<String, DataType> metadata;
        private DataType produced;

        MetadataSource(String mode, DataType type, Map<String, DataType> metadata) {
            super(mode, type);
            this.metadata = metadata;
            this.produced = type;
        }

        @Override
        DataType produced() {
            return produced;
        }

        @Override
        public Map<String, DataType> listReadableMetadata() {
            return metadata;
        }

        @Override
        public void applyReadableMetadata(List<String> keys, DataType produced) {
            this.produced = produced;
        }

        @Override
        public DynamicTableSource copy() {
            MetadataSource copy = new MetadataSource(mode, type, metadata);
            copy.produced = produced;
            return copy;
        }
    }

    private static final class LookupSource extends Source implements LookupTableSource {
        private final String lookup;

        LookupSource(String mode, DataType type, String lookup) {
            super(mode, type);
            this.lookup = lookup;
        }

        @Override
        public LookupRuntimeProvider getLookupRuntimeProvider(LookupContext context) {
            return lookup.equals("async")
                    ? AsyncLookupFunctionProvider.of(new NoAsyncLookup())
                    : LookupFunctionProvider.of(new NoLookup());
        }

        @Override
        public DynamicTableSource copy() {
            return new LookupSource(mode, type, lookup);
        }
    }

    /** Stands for the lookup that the engine makes. */
    public static final class NoLookup extends LookupFunction {
        @Override
        public Collection<RowData> lookup(RowData key) {
            throw new UnsupportedOperationException();
        }
    }

    /** Stands for the asynchronous lookup that the engine makes. */
    public static final class NoAsyncLookup extends AsyncLookupFunction {
        @Override
        public CompletableFuture<Collection<RowData>> asyncLookup(RowData key) {
            throw new UnsupportedOperationException();
        }
    }

    private static class Sink implements DynamicTableSink {
        final String mode;

        Sink(String mode) {
            this.mode = mode;
        }

        @Override
        public ChangelogMode getChangelogMode(ChangelogMode requested) {
            return mode.equals("any") ? requested : modeOf(mode);
        }

        @Override
        public SinkRuntimeProvider getSinkRuntimeProvider(Context context) {
            return new DataStreamSinkProvider() {
                @Override
                public DataStreamSink<?> consumeDataStream(
                        ProviderContext provider, DataStream<RowData> rows) {
                    return rows.sinkTo(new DiscardingSink<>());
                }
            };
        }

        @Override
        public DynamicTableSink copy() {
            return new Sink(mode);
        }

        @Override
        public String asSummaryString() {
            return "vec";
        }
    }

    private static final class MetadataSink extends Sink implements SupportsWritingMetadata {
        private final Map<String, DataType> metadata;

        MetadataSink(String mode, Map<String, DataType> metadata) {
            super(mode);
            this.metadata = metadata;
        }

        @Override
        public Map<String, DataType> listWritableMetadata() {
            return metadata;
        }

        @Override
        public void applyWritableMetadata(List<String> keys, DataType consumed) {}

        @Override
        public DynamicTableSink copy() {
            return new MetadataSink(mode, metadata);
        }
    }
}
