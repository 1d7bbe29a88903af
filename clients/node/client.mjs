// A program that uses a provider's SDK as its users do. It is told what to do
// as JSON, prints "ready" once the SDK is loaded, begins when its standard
// input ends, and prints what it got as JSON:
//
//   node client.mjs '{"sdk": "openai", "base": "http://…", "asks": [{"api": "chat", "stream": true}]}'
//
// With {"leaveAfter": n} an ask leaves after so many pieces of its answer, and
// with {"base": "http://…"} it goes elsewhere.
import { setMaxListeners } from 'node:events';

globalThis.AI_SDK_LOG_WARNINGS = false;
const job = JSON.parse(process.argv[2]);
// The keys have the shape of each provider's.
const openAIKey = 'sk-fake-of-the-tests';
const anthropicKey = 'sk-ant-fake-of-the-tests';
const options = { maxRetries: job.retries, timeout: job.timeoutMs };

// What came over the wire for the ask at hand: a status and the instant for
// each answer, and the bytes of the last.
let wire;

async function watched(input, init) {
  const answer = await fetch(input, init);
  const seen = { status: answer.status, at: Date.now(), bytes: [] };
  wire.push(seen);
  if (!answer.body) return answer;
  const watch = new TransformStream({
    transform(chunk, to) {
      seen.bytes.push(chunk);
      to.enqueue(chunk);
    },
  });
  const { status, statusText, headers } = answer;
  return new Response(answer.body.pipeThrough(watch), { status, statusText, headers });
}

// Each SDK makes a client of a provider, and for each API a function that asks. A
// streamed answer is a sequence of texts, another is one value.
const sdks = {
  async openai(base) {
    const { default: OpenAI } = await import('openai');
    const client = new OpenAI({ apiKey: openAIKey, baseURL: base + '/v1', fetch: watched, ...options });
    const messages = ask => [{ role: 'user', content: ask.prompt }];
    return {
      async chat(ask, signal) {
        if (!ask.stream) {
          return (await client.chat.completions.create({ model: ask.model, messages: messages(ask) }, { signal })).choices[0].message.content;
        }
        const stream = await client.chat.completions.create({ model: ask.model, stream: true, messages: messages(ask) }, { signal });
        return pieces(stream, chunk => chunk.choices[0]?.delta.content);
      },
      async responses(ask, signal) {
        if (!ask.stream) return (await client.responses.create({ model: ask.model, input: ask.prompt }, { signal })).output_text;
        const stream = await client.responses.create({ model: ask.model, stream: true, input: ask.prompt }, { signal });
        return pieces(stream, e => (e.type === 'response.output_text.delta' ? e.delta : undefined));
      },
      async embeddings(ask, signal) {
        return (await client.embeddings.create({ model: ask.model, input: [ask.prompt, 'and another'] }, { signal })).data.map(d => d.embedding);
      },
    };
  },

  async anthropic(base) {
    const { default: Anthropic } = await import('@anthropic-ai/sdk');
    const client = new Anthropic({ apiKey: anthropicKey, baseURL: base, fetch: watched, ...options });
    const body = ask => ({ model: ask.model, max_tokens: 100, messages: [{ role: 'user', content: ask.prompt }] });
    return {
      async messages(ask, signal) {
        if (!ask.stream) return (await client.messages.create(body(ask), { signal })).content[0].text;
        const stream = await client.messages.create({ ...body(ask), stream: true }, { signal });
        return pieces(stream, e => (e.type === 'content_block_delta' ? e.delta.text : undefined));
      },
    };
  },

  async ai(base) {
    const { generateText, streamText, embedMany } = await import('ai');
    const { createOpenAI } = await import('@ai-sdk/openai');
    const { createAnthropic } = await import('@ai-sdk/anthropic');
    const openai = createOpenAI({ apiKey: openAIKey, baseURL: base + '/v1', fetch: watched });
    const anthropic = createAnthropic({ apiKey: anthropicKey, baseURL: base + '/v1', fetch: watched });
    const text = model => async (ask, abortSignal) => {
      const request = { model: model(ask.model), prompt: ask.prompt, maxOutputTokens: 100, abortSignal, maxRetries: job.retries };
      if (!ask.stream) return (await generateText(request)).text;
      const { fullStream } = streamText({ ...request, onError() {} });
      return pieces(fullStream, part => {
        if (part.type === 'error') throw part.error;
        return part.type === 'text-delta' ? part.text : undefined;
      });
    };
    return {
      chat: text(m => openai.chat(m)),
      responses: text(m => openai.responses(m)),
      messages: text(m => anthropic(m)),
      async embeddings(ask, abortSignal) {
        return (await embedMany({ model: openai.embedding(ask.model), values: [ask.prompt, 'and another'], abortSignal, maxRetries: job.retries })).embeddings;
      },
    };
  },
};

async function* pieces(stream, read) {
  for await (const event of stream) {
    const text = read(event);
    if (text) yield text;
  }
}

async function run(apis, ask) {
  wire = [];
  const leave = new AbortController();
  setMaxListeners(0, leave.signal);
  const got = { text: '', pieces: [] };
  try {
    const answer = await apis[ask.api](ask, leave.signal);
    if (typeof answer === 'string') got.text = answer;
    else if (Array.isArray(answer)) got.vectors = answer;
    else {
      for await (const piece of answer) {
        got.text += piece;
        got.pieces.push({ at: Date.now(), text: piece });
        if (got.pieces.length === ask.leaveAfter) {
          got.left = Date.now();
          leave.abort();
          break;
        }
      }
    }
  } catch (e) {
    if (!got.left) got.error = `${e.name}: ${e.status ?? e.statusCode ?? ''} ${e.message}`;
  }
  got.answers = wire.map(({ status, at }) => ({ status, at }));
  got.bytes = Buffer.concat(wire.at(-1)?.bytes ?? []).toString('base64');
  return got;
}

const make = sdks[job.sdk];
const usual = await make(job.base);
console.log('ready');
for await (const _ of process.stdin);
const results = [];
for (const ask of job.asks) results.push(await run(ask.base ? await make(ask.base) : usual, ask));
console.log(JSON.stringify(results));
