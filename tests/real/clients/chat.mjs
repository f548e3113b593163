// Chats with the official `openai` library and with Vercel's AI SDK; prints what they understood.
import OpenAI from 'openai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { streamText } from 'ai';

const baseURL = process.argv[2];
const client = new OpenAI({ baseURL, apiKey: 'none' });
const messages = [{ role: 'user', content: 'What time is it on the clock now?' }];

const whole = await client.chat.completions.create({ model: 'main', messages });
const stream = await client.chat.completions.create({
  model: 'main', messages, stream: true, stream_options: { include_usage: true },
});
let text = '', usage = null, finish = null;
for await (const chunk of stream) {
  text += chunk.choices[0]?.delta?.content ?? '';
  finish = chunk.choices[0]?.finish_reason ?? finish;
  usage = chunk.usage ?? usage;
}
let refused = null;
try {
  await client.chat.completions.create({ model: 'no-such', messages });
} catch (error) {
  refused = { status: error.status, code: error.code };
}
const response = await client.responses.create({ model: 'main', input: messages[0].content });

const toolgate = createOpenAICompatible({ name: 'toolgate', baseURL });
const vercel = streamText({ model: toolgate('main'), messages });
let second = '';
for await (const piece of vercel.textStream) second += piece;

console.log(JSON.stringify({
  whole: whole.choices[0].message.content,
  text, finish, total: usage?.total_tokens ?? 0, refused,
  response: response.output_text,
  vercel: second,
}));
